// A list of work that is under way, in the order of its arrival; its members know their neighbours.

/** A member of at most one list; only the list writes these fields. */
export interface ListLinks<Item> {
  before: Item | undefined;
  behind: Item | undefined;
}

/**
 * A list for members that come and go thousands of times a second. A Set makes a new table now and
 * then, and V8 lets the old table point to the new one. Once such a table has grown old, every
 * member at the time of the change is kept until the whole heap is marked, and is copied out of the
 * young generation until then. Here nothing points to removed members.
 */
export class LinkedList<Item extends ListLinks<Item>> {
  #first: Item | undefined;
  #last: Item | undefined;

  get first(): Item | undefined {
    return this.#first;
  }

  /** The item must be in no list. */
  add(item: Item): void {
    item.before = this.#last;
    if (this.#last === undefined) this.#first = item;
    else this.#last.behind = item;
    this.#last = item;
  }

  /** Call it once for each added item. */
  remove(item: Item): void {
    const { before, behind } = item;
    if (before === undefined) this.#first = behind;
    else before.behind = behind;
    if (behind === undefined) this.#last = before;
    else behind.before = before;
    item.before = undefined;
    item.behind = undefined;
  }

  /** Members in their order. The visited item may be removed meanwhile. */
  *[Symbol.iterator](): Generator<Item, void> {
    for (let item = this.#first; item !== undefined; ) {
      const { behind }: ListLinks<Item> = item;
      yield item;
      item = behind;
    }
  }
}
