"""The operations on cells: the contract of `ScalarCells` and `ColumnCells`, which `cells.py` explains."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, TypeAlias

from changeling.envelope.csv_rows import CsvRow, RowStyle
from changeling.envelope.structs import MemberStruct

Cell: TypeAlias = Any
"""A value of one record (None where it has none), or the column of it; a plain value stands for a column of nothing else."""
Condition: TypeAlias = Any
"""A truth value, or a mask: `&`, `|` and `~` work on both."""
Reason: TypeAlias = str | Callable[[], str]
"""Why a record is rejected; of one record alone, so a function may look at its values."""
Members = dict[str, Cell]
Names = tuple[str, ...]


class Operations(ABC):
    """What can be done with cells, and differs for one record and for many.

    A condition does one of four things, by what the records are that it does not hold for:

    - `expect`: they are wrong, and are rejected with the reason;
    - `usually`: they are right but rare. `if not cells.usually(condition): …` is code for one record at a time;
    - `branch`: they are as common as the others. Both branches of `if cells.branch(condition): …` are code for groups, too;
    - `one_by_one`: all records that get there are rare. What follows is code for one record at a time.

    The last three split a group: records that take another way leave it, and are read in a group of their own, or alone.
    """

    is_columnar: ClassVar[bool]

    @abstractmethod
    def expect(self, condition: Condition, reason: Reason = "") -> None:
        """Rejects records for which this does not hold; those of a group leave it, and get their reason when they are read alone."""

    @abstractmethod
    def usually(self, condition: Condition) -> bool:
        """Whether this holds. Of a group, it always does: the records for which it does not leave it."""

    @abstractmethod
    def branch(self, condition: Condition) -> bool:
        """Whether this holds. Of a group, for its first record: those for which it is otherwise leave it."""

    @abstractmethod
    def refuse(self, reason: Reason) -> NoReturn:
        """Rejects all of the records."""

    @abstractmethod
    def one_by_one(self) -> None:
        """What follows is code for one record at a time, whose cells are values: all records of a group leave it."""

    @abstractmethod
    def any(self, condition: Condition) -> bool:
        """Whether this holds for one of the records at least."""

    @abstractmethod
    def all(self, condition: Condition) -> bool:
        """Whether this holds for all of the records."""

    @abstractmethod
    def each(self, function: Callable[..., Any], *cells: Cell) -> Cell:
        """What a function, which may raise `Rejected`, makes of the values of these cells.

        It is called once for each distinct combination of values in a group, so it must depend on nothing else.
        """

    @abstractmethod
    def each_row(self, function: Callable[..., Any], *cells: Cell) -> Cell:
        """As `each`, for values that are seldom equal: it is called for every record."""

    @abstractmethod
    def holds(self, function: Callable[..., bool], *cells: Cell) -> Condition:
        """Where a function of the values returns true."""

    @abstractmethod
    def common(self, cell: Cell) -> Any:
        """The value; a group continues with the records that have the value of the first one."""

    @abstractmethod
    def limit(self, value: Cell, count: int) -> None:
        """A group continues with the records that have one of its first `count` distinct values."""

    @abstractmethod
    def by_value(self, function: Callable[..., Sequence[Cell]], value: Cell, *cells: Cell) -> Sequence[Cell]:
        """Cells made in another way for each value: by a function of `Cells`, the value, and these cells of its records."""

    @abstractmethod
    def by_shape(self, function: Callable[..., Sequence[Cell]], texts: Sequence[Cell], *cells: Cell) -> Sequence[Cell]:
        """Cells made in another way for each shape of these objects: the members that they have, in their order.

        By a function of `Cells`, the members of each object (None where there is none), and these cells of its records.
        """

    @abstractmethod
    def each_object(self, function: Callable[..., Any], text: Cell, *others: Cell) -> Cell:
        """What a function makes of the members of an object, and of others (None where one is missing).

        It is called for every record that has the object; the others have nothing.
        """

    @abstractmethod
    def mask(self, truth: Any) -> Condition:
        """A truth value, or a column of them, as a condition."""

    @abstractmethod
    def present(self, cell: Cell) -> Condition:
        """Where there is a value."""

    @abstractmethod
    def equal(self, cell: Cell, other: Cell) -> Condition:
        """Where both are present and equal."""

    @abstractmethod
    def one_of(self, cell: Cell, values: Collection[str]) -> Condition:
        """Where a text is one of these."""

    @abstractmethod
    def starts(self, cell: Cell, head: bytes) -> Condition:
        """Where JSON begins with this, whatever blanks are in front."""

    @abstractmethod
    def matches(self, cell: Cell, pattern: str) -> Condition:
        """Where a pattern fits an entire text."""

    @abstractmethod
    def contains(self, cell: Cell, parts: Sequence[bytes]) -> Condition:
        """Where a text contains one of these."""

    @abstractmethod
    def where(self, condition: Condition, cell: Cell, other: Cell) -> Cell:
        """`cell` where the condition holds, else `other`."""

    @abstractmethod
    def first(self, *cells: Cell) -> Cell:
        """The first of these that is present."""

    @abstractmethod
    def joined(self, *parts: Cell) -> Cell:
        """These texts concatenated; None where one of them is missing."""

    @abstractmethod
    def envelope(self, text: Cell) -> Members:
        """The members of an object whose values are usually texts, numbers, true, false or null, or objects of such."""

    @abstractmethod
    def members(self, text: Cell, name: str = "", optional: Names = (), usual: Names = ()) -> Members:
        """The members of an object as JSON, in their order; `name` is where it was found.

        The objects of a group may lack those that are optional, where they have others in their usual order.
        """

    @abstractmethod
    def names(self, text: Cell) -> tuple[str, ...]:
        """The names in an object; of a group, in that of the first record."""

    @abstractmethod
    def items(self, text: Cell, count: int, wrong: Callable[[int], str]) -> list[Cell]:
        """The items of an array of `count`, as JSON; of others, `wrong` says so."""

    @abstractmethod
    def csv_row(self, text: Cell, style: RowStyle) -> CsvRow:
        """The fields of a row of CSV; those of a group have one number of fields, and are usual."""

    @abstractmethod
    def doubled(self, text: Cell, letter: str) -> Cell:
        """A text with each of these letters twice."""

    @abstractmethod
    def parse_natural_json(self, raw: Cell) -> Cell:
        """JSON as a natural number of 63 bits; None where it is anything else."""

    @abstractmethod
    def is_set(self, cell: Cell) -> Condition:
        """Where a member of an object is present, even if it is null."""

    @abstractmethod
    def struct(self, kind: MemberStruct, text: Cell) -> Any:
        """An object whose attributes are cells; they are None where the text is missing."""

    @abstractmethod
    def text(self, raw: Cell) -> Cell:
        """The content of a JSON string."""

    @abstractmethod
    def document(self, members: Mapping[str, Cell], side: str) -> Cell:
        """The object in a member, or the one in its text; None where that is missing or `null`."""

    @abstractmethod
    def object_meta(self, name: str, text: Cell, known: Mapping[str, tuple[str, Cell]]) -> Cell:
        """`meta` of one member, an object: `known` are values of it that other columns have, and where.

        What the log stores is a template without them, where it is compact and the same for several records.
        """

    @abstractmethod
    def quoted(self, text: Cell) -> Cell:
        """A text as a JSON string with the fewest escapes; `null` where there is none."""

    @abstractmethod
    def int_json(self, number: Cell) -> Cell:
        """An integer as JSON; `null` where there is none."""

    @abstractmethod
    def padded(self, number: Cell, width: int) -> Cell:
        """An integer as text, with zeros in front up to a width."""

    @abstractmethod
    def size(self, text: Cell) -> Cell:
        """How many bytes a text has."""

    @abstractmethod
    def as_text(self, cell: Cell) -> Cell:
        """The value where it is a text, None where it is anything else."""

    @abstractmethod
    def plus(self, number: Cell, other: Cell) -> Cell:
        """The sum of two numbers."""

    @abstractmethod
    def at_least(self, number: Cell, least: int) -> Cell:
        """A number, or `least` where it is smaller."""

    @abstractmethod
    def int_or_text(self, cell: Cell, name: str) -> Cell:
        """An integer, which may be printed as text; `name` says whose it is."""

    @abstractmethod
    def captured(self, text: Cell, pattern: str) -> tuple[Cell, ...]:
        """The numbers in the groups of a pattern, all with names, that fits an entire text; None where it does not."""

    @abstractmethod
    def behind(self, text: Cell, pattern: str) -> tuple[Cell, ...]:
        """The texts in the groups of a pattern, all with names, that JSON begins with, and what follows; None where it does not."""

    @abstractmethod
    def parse_int(self, text: Cell) -> Cell:
        """The integer that a text is."""

    @abstractmethod
    def changed(self, text: Cell, mark: bytes, function: Callable[[str], str]) -> Cell:
        """A function of the texts that contain a mark; the others stay."""

    @abstractmethod
    def check_position(self, text: Cell) -> None:
        """Rejects anything but a position."""

    @abstractmethod
    def is_position(self, text: Cell) -> Condition:
        """Where a text is a position."""

    @abstractmethod
    def int_text(self, number: Cell) -> Cell:
        """An integer as text."""

    @abstractmethod
    def position(self, *numbers: Cell) -> Cell:
        """The position of these numbers."""

    @abstractmethod
    def time(self, number: Cell, unit: int) -> Cell:
        """A count of units since 1970 in nanoseconds."""

    @abstractmethod
    def transaction(self, name: Cell, order: Cell = None, total: Cell = None, complete: Cell = None) -> Cell:
        """A transaction; None where it has no name."""

    @abstractmethod
    def columns(self, row: Cell, names: tuple[str, ...]) -> Members:
        """The values of these columns of a row as JSON; None where it lacks one."""

    @abstractmethod
    def key(self, columns: Mapping[str, Cell]) -> Cell:
        """The canonical key of these columns."""

    @abstractmethod
    def canonical(self, value: Cell) -> Condition:
        """Where JSON is in its canonical form."""

    @abstractmethod
    def key_in_row(self, columns: Cell, row: Cell) -> Cell:
        """The canonical key of an object of columns; rejects rows that have another value in one of them."""

    @abstractmethod
    def ordered(self, text: Cell, names: tuple[str, ...]) -> Condition:
        """Where an object of plain values has exactly these members, in this order."""

    @abstractmethod
    def check_object(self, text: Cell) -> None:
        """Rejects anything but an object; a missing value passes."""

    @abstractmethod
    def check_depth(self, text: Cell) -> None:
        """Rejects objects that are nested too deep."""

    @abstractmethod
    def less(self, number: Cell, limit: int) -> Condition:
        """Where an integer is below a limit."""

    @abstractmethod
    def same(self, value: Cell, canonical: Cell) -> Condition:
        """Where JSON has this canonical form."""

    @abstractmethod
    def units(self, nanos: Cell, unit: int) -> Cell:
        """Whole units since 1970 of a time in nanoseconds."""

    @abstractmethod
    def components(self, position: Cell, count: int) -> tuple[Cell, ...]:
        """The numbers of a position of `count`; None where it is another one, or none."""

    @abstractmethod
    def sole_value(self, key: Cell) -> Cell:
        """The value of the only column of a key; None where there are more."""

    @abstractmethod
    def content(self, raw: Cell) -> Cell:
        """The text of a plain value of JSON: the content of a string, or its digits and letters."""

    @abstractmethod
    def without_key(self, image: Cell, key: Cell) -> Cell:
        """An image without the columns of its key."""

    @abstractmethod
    def without_end(self, text: Cell) -> Cell:
        """A compact object without the bracket at its end."""

    @abstractmethod
    def with_front(self, front: Cell, text: Cell) -> Cell:
        """A compact object with other members in front of its own: the text of an object without the bracket at its end."""

    @abstractmethod
    def fields(self, struct: Cell) -> Any:
        """An object whose attributes are cells, of a struct that may be missing."""

    @abstractmethod
    def lose(self, out: Any, condition: Condition, feature: str, why: Reason) -> None:
        """Notes that a change loses this where the condition holds (see `Outgoing.lose`)."""


def as_bytes(text: Any) -> Any:
    """A text as bytes; anything else as it is."""
    return text.encode() if isinstance(text, str) else text
