// What is under way, in the order of its coming: a list whose members know their neighbours.

/** A member of one list at most; the list alone writes these fields. */
export interface ListLinks<Item> {
  before: Item | undefined;
  behind: Item | undefined;
}

/**
 * For what comes and goes thousands of times a second. A Set makes itself a new table now and then,
 * and V8 lets the old one point to the new one: once such a table has grown old, all that was a
 * member when a table was left is kept until the whole heap is marked, and is copied out of the
 * young generation until then. Here nothing points to what has left.
 */
export class LinkedList<Item extends ListLinks<Item>> {
  #first: Item | undefined;
  #last: Item | undefined;

  get first(): Item | undefined {
    return this.#first;
  }

  /** Of one that is in no list. */
  add(item: Item): void {
    item.before = this.#last;
    if (this.#last === undefined) this.#first = item;
    else this.#last.behind = item;
    this.#last = item;
  }

  /** Once for each that was added. */
  remove(item: Item): void {
    const { before, behind } = item;
    if (before === undefined) this.#first = behind;
    else before.behind = behind;
    if (behind === undefined) this.#last = before;
    else behind.before = before;
    item.before = undefined;
    item.behind = undefined;
  }

  /** In their order. The one that is being looked at may be removed meanwhile. */
  *[Symbol.iterator](): Generator<Item, void> {
    for (let item = this.#first; item !== undefined; ) {
      const { behind }: ListLinks<Item> = item;
      yield item;
      item = behind;
    }
  }
}
