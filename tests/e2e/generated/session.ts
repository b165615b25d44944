// A session with the types that openapi-typescript has generated: upload, train, predict, refusal.
// Compiled with --strict and run by tests/e2e/test_generated_clients.py. Prints what it found as JSON.

import createClient from "openapi-fetch";
import type { components, paths } from "./openapi.js";

type TrainResult = components["schemas"]["TrainResult"];

const client = createClient<paths, "application/json" | "application/problem+json">({ baseUrl: process.argv[2] });
const rows = Array.from({ length: 80 }, (_, i) => `${i % 7},${(i * 3) % 11},${i % 7 > 3 ? "good" : "bad"}`);

const uploaded = await client.POST("/v1/datasets", {
  params: { query: { name: "generated-typescript" } },
  headers: { "Content-Type": "text/csv" },
  body: ["a,b,kind", ...rows].join("\n"),
  bodySerializer: (body) => body as string,
});
const dataset = uploaded.data;
if (!dataset) throw new Error(uploaded.error.detail);

const submitted = await client.POST("/v1/jobs", {
  params: { header: { prefer: "wait=60" } },
  body: { type: "train", dataset_id: dataset.id, model: "generated-typescript", split: { test: 0.25 }, C: 10 },
});
if (!submitted.data || !("id" in submitted.data)) throw new Error(JSON.stringify(submitted.error));
const fetched = await client.GET("/v1/jobs/{job_id}", {
  params: { path: { job_id: submitted.data.id }, query: { wait: 30 } },
});
const result = fetched.data?.result as TrainResult;

const predicted = await client.POST("/v1/models/{ref}/predict", {
  params: { path: { ref: "generated-typescript" } },
  body: {
    instances: [[6, 0], { indices: [1], values: [1] }],
    return: ["label", "score", "label_certain"],
  },
});
const predictions = predicted.data?.predictions ?? [];

const refused = await client.POST("/v1/jobs", { body: { type: "train", dataset_id: "ds_nothing" } });

console.log(
  JSON.stringify({
    rows: dataset.n_rows,
    gap: result.certificate.relative_gap,
    labels: predictions.map((one) => one.label),
    certain: predictions.map((one) => one.label_certain),
    refused: [refused.error?.status, refused.error?.errors?.[0]?.field],
  }),
);
