"""Preprocessing settings: the field `preprocess` of a training request."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from app.names import TEXT_PATTERN, check_text
from app.tabular.frame import Kind

Scale = Literal["auto", "none", "standard", "maxabs", "minmax"]
Missing = Literal["error", "mean", "zero", "indicator"]
DatePart = Literal["days", "weekday", "month", "hour"]

MAX_HASH = 1 << 24
"""Maximum number of hashed features or vocabulary terms of a column. Larger: more memory, 8 bytes per class for each.
Set by hand; no measurement is recorded."""
MAX_NGRAM = 5
"""Maximum words of a term. Larger: more different terms, and more memory to count them. Set by hand; no measurement is
recorded."""

NgramSize = Annotated[int, Field(ge=1, le=MAX_NGRAM)]
TWO_SIZES = {
    "type": "array",
    "items": {"type": "integer", "minimum": 1, "maximum": MAX_NGRAM},
    "minItems": 2,
    "maxItems": 2,
}
"""JSON schema of `ngrams`. pydantic would write `prefixItems`, which generators of clients ignore."""


def _no_truth_value(value: Any) -> Any:
    """Raise for true and false where a number is expected. Python would treat them as 1 and 0."""
    if isinstance(value, bool):
        raise PydanticCustomError("not_a_number", "must be a number, not true or false")
    return value


def _no_zero(value: Any) -> Any:
    """Raise for 0 where false is expected. Python would treat them as equal."""
    if value == 0 and not isinstance(value, bool):
        raise PydanticCustomError("not_a_size", "must be false, or a number of at least 2")
    return value


MOST_COUNT = 2**53
"""Maximum of a count: the largest integer that JSON numbers represent exactly in every language."""
Documents = Annotated[
    Annotated[int, Field(ge=1, le=MOST_COUNT, strict=True)] | Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)],
    BeforeValidator(_no_truth_value),
]
Count = Annotated[int, Field(ge=1, le=MOST_COUNT), BeforeValidator(_no_truth_value)]
HashDims = Annotated[int, Field(ge=2, le=MAX_HASH)]

SCALE = (
    "Scaling of numeric columns. standard: mean 0, standard deviation 1; maxabs: divided by the largest absolute "
    "value; minmax: 0 to 1; auto: chosen from the data, and reported in a warning."
)
MISSING = (
    "Missing numbers. mean: the mean of the training rows; zero; indicator: the mean, and a feature that is 1 where "
    "the value is missing; error: refuse. A missing category is a category of its own."
)
CATEGORICAL = "Encoding of categories. onehot: one feature each; hash: `hash_dims` features in total."
UNKNOWN = "Categories that training did not see. ignore: no feature, or the pooled one of `min_count`; error: refuse."
MIN_COUNT = "Categories with fewer training rows than this share one feature."
HASH_DIMS = "Number of features of a column with `categorical: hash`."
DATES = "Features of a date. Default: days, weekday and month, and hour if a training row has a time of day."
TEXT = "How text columns become features."


class Settings(BaseModel):
    """Base class of the settings. Unknown fields and numbers that are not finite are errors."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class TextSettings(Settings):
    """How texts become features. Names and meanings are those of scikit-learn's TfidfVectorizer."""

    ngrams: Annotated[tuple[NgramSize, NgramSize], WithJsonSchema(TWO_SIZES)] = Field(
        (1, 1), description="Minimum and maximum number of consecutive words of a term."
    )
    min_df: Documents = Field(
        1, description="Ignore terms that occur in fewer texts: a count, or a share such as 0.01."
    )
    max_df: Documents = Field(
        1.0, description="Ignore terms that occur in more texts: a count, or a share such as 0.5."
    )
    max_features: Annotated[int, Field(ge=1, le=MAX_HASH)] | None = Field(
        None, description="Maximum number of terms; the most frequent terms are kept. null: no limit."
    )
    sublinear: StrictBool = Field(True, description="Use 1 + log(count) instead of the count.")
    idf: StrictBool = Field(
        True,
        description="Multiply by the inverse document frequency, log((1 + texts) / (1 + texts with the term)) + 1.",
    )
    norm: Literal["l2", "none"] = Field("l2", description="l2: scale the features of each text to Euclidean norm 1.")
    lowercase: StrictBool = Field(True, description="Convert texts to lower case first.")
    hash: Annotated[Literal[False] | HashDims, BeforeValidator(_no_zero)] = Field(
        False,
        description="Number of hashed features instead of a vocabulary; terms with the same hash share a feature. "
        "false: use a vocabulary.",
    )

    @model_validator(mode="after")
    def has_an_order(self) -> Self:
        if self.ngrams[0] > self.ngrams[1]:
            raise ValueError("ngrams: the first number must be at most the second")
        return self


class ColumnSettings(Settings):
    """Settings of one column. A setting that is null has the value for all columns."""

    kind: Kind | None = Field(None, description="Kind of the column; null: its kind in the dataset.")
    ignore: StrictBool = Field(False, description="Leave the column out.")
    scale: Scale | None = Field(None, description=SCALE)
    missing: Missing | None = Field(None, description=MISSING)
    categorical: Literal["onehot", "hash"] | None = Field(None, description=CATEGORICAL)
    unknown: Literal["ignore", "error"] | None = Field(None, description=UNKNOWN)
    min_count: Count | None = Field(None, description=MIN_COUNT)
    hash_dims: HashDims | None = Field(None, description=HASH_DIMS)
    dates: tuple[DatePart, ...] | None = Field(None, min_length=1, description=DATES)
    text: TextSettings | None = Field(None, description=TEXT)


class Preprocess(Settings):
    """How raw columns become features. Everything is learnt from the training rows and stored with the model."""

    scale: Scale = Field("auto", description=SCALE)
    missing: Missing = Field("mean", description=MISSING)
    categorical: Literal["onehot", "hash"] = Field("onehot", description=CATEGORICAL)
    unknown: Literal["ignore", "error"] = Field("ignore", description=UNKNOWN)
    min_count: Count = Field(1, description=MIN_COUNT)
    hash_dims: HashDims = Field(1024, description=HASH_DIMS)
    dates: tuple[DatePart, ...] | None = Field(None, min_length=1, description=DATES)
    text: TextSettings = Field(TextSettings(), description=TEXT)
    columns: dict[Annotated[str, AfterValidator(check_text)], ColumnSettings] = Field(
        {},
        description="Settings of single columns, by name, where they differ from those above.",
        max_length=10_000,
        json_schema_extra={"propertyNames": {"pattern": TEXT_PATTERN}},
    )

    def of(self, name: str | None) -> "Choice":
        """Return the settings of a column with defaults filled in. Only `kind` and `dates` can still be None."""
        own = self.columns.get(name) if name is not None else None
        said = {} if own is None else {field: value for field, value in own if value is not None}
        shared = {one.name: getattr(self, one.name) for one in fields(Choice) if one.name not in ("kind", "ignore")}
        return Choice(**{"kind": None, "ignore": False, **shared, **said})


@dataclass(frozen=True)
class Choice:
    """The settings of one column, with defaults filled in."""

    kind: Kind | None
    ignore: bool
    scale: Scale
    missing: Missing
    categorical: Literal["onehot", "hash"]
    unknown: Literal["ignore", "error"]
    min_count: int
    hash_dims: int
    dates: tuple[DatePart, ...] | None
    text: TextSettings

    def taken_for(self, stored: Kind) -> Kind:
        """Return the kind as which a stored column is treated."""
        return stored if self.kind is None or (stored, self.kind) == ("date", "numeric") else self.kind
