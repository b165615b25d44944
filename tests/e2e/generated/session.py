"""A session with the client that openapi-python-client has generated: upload, train, predict, refusal.

Run by tests/e2e/test_generated_clients.py, in the generator's own environment. Prints what it found as JSON.
"""

import json
import sys
from io import BytesIO

from hyperplane_api import Client
from hyperplane_api.api.datasets import create_dataset
from hyperplane_api.api.jobs import create_job, get_job
from hyperplane_api.api.models import get_model
from hyperplane_api.api.predictions import predict
from hyperplane_api.models import PredictionOutput, PredictionRequest, SparseRow, SplitByShare, TrainRequest
from hyperplane_api.types import File

rows = [f"{i % 7},{(i * 3) % 11},{'good' if (i % 7) > 3 else 'bad'}" for i in range(80)]
content = "\n".join(["a,b,kind", *rows]).encode()
with Client(base_url=sys.argv[1], timeout=60) as client:
    dataset = create_dataset.sync(client=client, body=File(payload=BytesIO(content)), name="generated-python")
    request = TrainRequest(dataset_id=dataset.id, model="generated-python", split=SplitByShare(test=0.25), c=10.0)
    created = create_job.sync(client=client, body=request, prefer="wait=60")
    job = get_job.sync(created.id, client=client, wait=30)
    model = get_model.sync("generated-python", client=client)
    wanted = [PredictionOutput.LABEL, PredictionOutput.SCORE, PredictionOutput.LABEL_CERTAIN]
    instances = [[6.0, 0.0], SparseRow(indices=[1], values=[1.0])]
    answer = predict.sync(
        "generated-python", client=client, body=PredictionRequest(instances=instances, return_=wanted)
    )
    refused = create_job.sync(client=client, body=TrainRequest(dataset_id="ds_nothing"))
print(
    json.dumps(
        {
            "rows": dataset.n_rows,
            "result": type(job.result).__name__,
            "metrics": type(model.metrics.test).__name__,
            "gap": job.result.certificate.relative_gap,
            "labels": [one.label for one in answer.predictions],
            "certain": [one.label_certain for one in answer.predictions],
            "refused": [type(refused).__name__, refused.status, refused.errors[0].field],
        }
    )
)
