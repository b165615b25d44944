"""What a job may ask of preprocessing: the field `preprocess` of a training request."""

from dataclasses import dataclass, fields
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.names import Text
from app.tabular.frame import Kind

Scale = Literal["auto", "none", "standard", "maxabs", "minmax"]
Missing = Literal["error", "mean", "zero", "indicator"]
DatePart = Literal["days", "weekday", "month", "hour"]

MAX_HASH = 1 << 24
MAX_NGRAM = 5

Documents = (
    Annotated[int, Field(ge=1, le=2**62, strict=True)] | Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
)
HashDims = Annotated[int, Field(ge=2, le=MAX_HASH)]


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class TextSettings(Settings):
    """How texts become numbers. The names and meanings are those of scikit-learn's TfidfVectorizer."""

    ngrams: tuple[Annotated[int, Field(ge=1, le=MAX_NGRAM)], Annotated[int, Field(ge=1, le=MAX_NGRAM)]] = Field(
        (1, 1), description="from so many to so many words in a row are a term"
    )
    min_df: Documents = Field(1, description="terms of fewer texts are left out; a count, or a share such as 0.01")
    max_df: Documents = Field(1.0, description="terms of more texts are left out; a count, or a share such as 0.5")
    max_features: Annotated[int, Field(ge=1, le=MAX_HASH)] | None = Field(
        None, description="only so many of the commonest terms"
    )
    sublinear: bool = Field(True, description="1 + log(count) in place of the count")
    idf: bool = Field(True, description="weigh terms by log((1 + texts) / (1 + texts with the term)) + 1")
    norm: Literal["l2", "none"] = "l2"
    lowercase: bool = True
    hash: Literal[False] | HashDims = Field(
        False, description="so many numbered features in place of a vocabulary, each shared by what hashes to it"
    )

    @model_validator(mode="after")
    def has_an_order(self) -> Self:
        if self.ngrams[0] > self.ngrams[1]:
            raise ValueError("ngrams: the first number must not be above the second")
        return self


class ColumnSettings(Settings):
    """What holds for one column in place of what holds for all."""

    kind: Kind | None = Field(None, description="null: as the dataset has it")
    ignore: bool = False
    scale: Scale | None = None
    missing: Missing | None = None
    categorical: Literal["onehot", "hash"] | None = None
    unknown: Literal["ignore", "error"] | None = None
    min_count: Annotated[int, Field(ge=1, le=2**62)] | None = None
    hash_dims: HashDims | None = None
    dates: tuple[DatePart, ...] | None = Field(None, min_length=1)
    text: TextSettings | None = None


class Preprocess(Settings):
    """How raw columns become features. Everything is learnt from the training rows and stored with the model."""

    scale: Scale = Field("auto", description="of numbers; auto decides by the data and says so in a warning")
    missing: Missing = Field(
        "mean", description="indicator: the mean, and a feature that tells; a missing category is a level of its own"
    )
    categorical: Literal["onehot", "hash"] = "onehot"
    unknown: Literal["ignore", "error"] = Field(
        "ignore", description="levels that training did not see: no level, or the pooled one; or a refusal"
    )
    min_count: Annotated[int, Field(ge=1, le=2**62)] = Field(
        1, description="levels with fewer training rows are pooled into one"
    )
    hash_dims: HashDims = Field(1024, description="features of a column with `categorical: hash`")
    dates: tuple[DatePart, ...] | None = Field(
        None, min_length=1, description="null: days, weekday and month; hour too if a training row has a time of day"
    )
    text: TextSettings = TextSettings()
    columns: dict[Text, ColumnSettings] = Field(
        {}, description="by the column's name: what differs there", max_length=10_000
    )

    def of(self, name: str | None) -> "Choice":
        """What holds for a column, nothing left open but its kind and, by default, the parts of dates."""
        own = self.columns.get(name) if name is not None else None
        said = {} if own is None else {field: value for field, value in own if value is not None}
        shared = {one.name: getattr(self, one.name) for one in fields(Choice) if one.name not in ("kind", "ignore")}
        return Choice(**{"kind": None, "ignore": False, **shared, **said})


@dataclass(frozen=True)
class Choice:
    """The settings of one column."""

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
        """What a column that is stored as such becomes. A date as a number is its days."""
        return stored if self.kind is None or (stored, self.kind) == ("date", "numeric") else self.kind
