"""The stored form of a pipeline in a model file: a JSON document, and arrays whose names begin with `preprocess.`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.errors import CorruptModel
from app.preprocess.categorical import HashedLevels, OneHot
from app.preprocess.dates import Dates
from app.preprocess.features import Encoder
from app.preprocess.inputs import Inputs
from app.preprocess.numeric import Numbers
from app.preprocess.pipeline import Pipeline
from app.preprocess.spec import DatePart, HashDims, TextSettings
from app.preprocess.terms import Terms
from app.tabular.cell_format import CellFormat
from app.tabular.frame import Kind, Strings
from app.tabular.types import Array

PREFIX = "preprocess."
FLAGS = ("boolean", "refuses_missing", "indicates")
FIGURES = ("fill", "shift", "scale")
KINDS: dict[str, Kind] = {"onehot": "categorical", "hash": "categorical", "dates": "date", "text": "text"}


class Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    column: Annotated[int, Field(ge=0)]
    stored: Kind
    has_missing: bool
    refuses_missing: bool


class OneHotEntry(Entry):
    type: Literal["onehot"] = "onehot"
    has_other: bool
    refuses_unknown: bool


class HashEntry(Entry):
    type: Literal["hash"] = "hash"
    dims: HashDims


class DatesEntry(Entry):
    type: Literal["dates"] = "dates"
    parts: Annotated[list[DatePart], Field(min_length=1)]
    fill: float
    shift: float
    scale: Annotated[float, Field(gt=0)]


class TermsEntry(Entry):
    type: Literal["text"] = "text"
    settings: TextSettings


class FormatEntry(BaseModel):
    """How the training file writes the numbers and dates of a column."""

    model_config = ConfigDict(extra="forbid")

    decimal: Literal[".", ","] = "."
    thousands: Literal["", ",", ".", " ", "'"] = ""
    unit: Annotated[str, Field(max_length=8)] | None = None
    date_order: Literal["ymd", "dmy", "mdy"] = "ymd"


class Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    n_columns: Annotated[int, Field(ge=1)]
    named: bool
    ignored: list[int]
    sparse: bool
    single: bool = False
    formats: dict[Annotated[int, Field(ge=0)], FormatEntry] = {}
    encoders: list[Annotated[OneHotEntry | HashEntry | DatesEntry | TermsEntry, Field(discriminator="type")]]


def to_document(pipeline: Pipeline) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the document for the header of a model file, and the arrays for the file."""
    numbers = pipeline.numbers
    arrays: dict[str, Array] = {}
    if pipeline.names is not None:
        arrays |= _packed("names", Strings.of(pipeline.names))
    if not _is_every(numbers.columns, pipeline.n_columns):
        arrays["numbers.columns"] = numbers.columns
    for name in (*FLAGS, *FIGURES):
        array = getattr(numbers, name)
        if array.any():  # an array of zeros is not stored
            arrays[f"numbers.{name}"] = array.astype(np.uint8) if name in FLAGS else array
    entries = []
    for number, encoder in enumerate(pipeline.encoders):
        entries.append(_entry(encoder))
        if isinstance(encoder, OneHot):
            arrays |= _packed(f"{number}.levels", encoder.levels)
        elif isinstance(encoder, Terms):
            if encoder.vocabulary is not None:
                arrays |= _packed(f"{number}.vocabulary", encoder.vocabulary)
            if encoder.idf is not None:
                arrays[f"{number}.idf"] = encoder.idf
    document = Document(
        n_columns=pipeline.n_columns,
        named=pipeline.names is not None,
        ignored=sorted(pipeline.ignored),
        sparse=pipeline.sparse,
        single=pipeline.single,
        encoders=entries,
    )
    written = document.model_dump(mode="json")
    del written["formats"]
    if pipeline.formats:
        written["formats"] = {str(column): form.to_dict() for column, form in pipeline.formats.items()}
    return written, {PREFIX + name: array for name, array in arrays.items()}


def from_document(document: Mapping[str, Any], arrays: Mapping[str, Array]) -> Pipeline:
    """Read a stored pipeline. Raises CorruptModel if its parts are inconsistent."""
    read = _read(document)
    encoders = tuple(_encoder(entry, number, arrays) for number, entry in enumerate(read.encoders))
    taken = [*(encoder.column for encoder in encoders), *read.ignored]
    columns = _array(arrays, "numbers.columns", None, np.arange(read.n_columns))
    every = np.sort(np.concatenate([columns, np.array(taken, dtype=np.int64)]))
    if not _is_every(every, read.n_columns) or (np.diff(columns) <= 0).any():
        raise CorruptModel("the preprocessing must use each column exactly once")
    return Pipeline(
        names=_names(read, arrays),
        n_columns=read.n_columns,
        ignored=frozenset(read.ignored),
        numbers=_numbers(columns, arrays),
        encoders=encoders,
        sparse=read.sparse,
        single=read.single,
        formats={column: CellFormat(**form.model_dump()) for column, form in read.formats.items()},
    )


def read_inputs(document: Mapping[str, Any], arrays: Mapping[str, Array]) -> Inputs:
    """Read only the `inputs` of a stored pipeline. Raises CorruptModel."""
    read = _read(document)
    columns = _array(arrays, "numbers.columns", None, np.arange(read.n_columns))
    boolean = _array(arrays, "numbers.boolean", len(columns), np.zeros(len(columns))).astype(bool)
    kinds: dict[int, Kind] = dict.fromkeys(columns[boolean].tolist(), "boolean")
    kinds |= {entry.column: KINDS[entry.type] for entry in read.encoders}
    return Inputs(_names(read, arrays), read.n_columns, frozenset(read.ignored), kinds)


def _read(document: Mapping[str, Any]) -> Document:
    try:
        return Document.model_validate(document)
    except ValidationError as error:
        raise CorruptModel(f"the preprocessing document has {error.error_count()} invalid field(s)") from error


def _names(read: Document, arrays: Mapping[str, Array]) -> tuple[str, ...] | None:
    return tuple(_strings(arrays, "names", read.n_columns).to_list()) if read.named else None


def _numbers(columns: Array, arrays: Mapping[str, Array]) -> Numbers:
    width = len(columns)
    stored = {name: _array(arrays, f"numbers.{name}", width, np.zeros(width)) for name in (*FLAGS, *FIGURES)}
    if (stored["scale"] <= 0).any():
        raise CorruptModel("a scale in the preprocessing document must be above 0")
    flags: dict[str, Any] = {name: stored[name].astype(bool) for name in FLAGS}
    figures: dict[str, Any] = {name: stored[name].astype(np.float64) for name in FIGURES}
    return Numbers(columns, **flags, **figures)


def _entry(encoder: Encoder) -> Any:
    shared: dict[str, Any] = {name: getattr(encoder, name) for name in ("column", "stored", "refuses_missing")}
    if isinstance(encoder, OneHot):
        return OneHotEntry(
            **shared,
            has_missing=encoder.has_missing,
            has_other=encoder.has_other,
            refuses_unknown=encoder.refuses_unknown,
        )
    if isinstance(encoder, HashedLevels):
        return HashEntry(**shared, has_missing=encoder.has_missing, dims=encoder.dims)
    if isinstance(encoder, Dates):
        named = {name: getattr(encoder, name) for name in ("has_missing", "fill", "shift", "scale")}
        return DatesEntry(**shared, **named, parts=list(encoder.parts))
    assert isinstance(encoder, Terms)
    return TermsEntry(**shared, has_missing=encoder.has_missing, settings=encoder.settings)


def _encoder(entry: Any, number: int, arrays: Mapping[str, Array]) -> Encoder:
    own = {name: value for name, value in entry if name != "type"}
    if isinstance(entry, OneHotEntry):
        return OneHot(**own, levels=_strings(arrays, f"{number}.levels", None))
    if isinstance(entry, HashEntry):
        return HashedLevels(**own)
    if isinstance(entry, DatesEntry):
        if len(set(entry.parts)) != len(entry.parts):
            raise CorruptModel("the preprocessing document lists a date part twice")
        return Dates(**{**own, "parts": tuple(entry.parts)})
    vocabulary = None if entry.settings.hash else _strings(arrays, f"{number}.vocabulary", None)
    width = int(entry.settings.hash) if vocabulary is None else len(vocabulary)
    idf = _array(arrays, f"{number}.idf", width) if entry.settings.idf else None
    if idf is not None and (idf <= 0).any():
        raise CorruptModel("the inverse document frequency of a term must be above 0")
    return Terms(**own, vocabulary=vocabulary, idf=idf)


def _packed(name: str, texts: Strings) -> dict[str, Array]:
    """Return the arrays of texts, which must be stored contiguously, as `Strings.of` creates them."""
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), texts.ends])
    return {f"{name}.bytes": texts.bytes, f"{name}.offsets": offsets}


def _strings(arrays: Mapping[str, Array], name: str, count: int | None) -> Strings:
    offsets = _array(arrays, f"{name}.offsets", None if count is None else count + 1)
    text_bytes = _array(arrays, f"{name}.bytes", None, np.zeros(0, dtype=np.uint8))
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(text_bytes) or (np.diff(offsets) < 0).any():
        raise CorruptModel(f"the array preprocess.{name}.offsets does not match its texts")
    texts = Strings.stored(text_bytes, offsets)
    try:
        if len(set(texts.to_list())) != len(texts):
            raise CorruptModel(f"preprocess.{name} contains a text twice")
    except UnicodeDecodeError:
        raise CorruptModel(f"preprocess.{name} is not UTF-8") from None
    return texts


def _array(arrays: Mapping[str, Array], name: str, length: int | None, default: Array | None = None) -> Array:
    array = arrays.get(PREFIX + name, default)
    if array is None or array.ndim != 1 or (length is not None and len(array) != length):
        raise CorruptModel(f"the array preprocess.{name} is missing or has the wrong shape")
    wanted = "u" if name.endswith(".bytes") else "i" if name.endswith((".offsets", ".columns")) else None
    if wanted is not None and array.dtype.kind != wanted:
        raise CorruptModel(f"the array preprocess.{name} has the wrong type")
    return array


def _is_every(columns: Array, n_columns: int) -> bool:
    return len(columns) == n_columns and bool((columns == np.arange(n_columns)).all())
