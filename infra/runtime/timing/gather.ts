// Batches concurrent questions into one, so that many share a round trip.

interface GatheredItem<Item, Answer> {
  readonly item: Item;
  readonly done: (answer: Answer) => void;
  readonly failed: (error: unknown) => void;
}

/**
 * `ask` gets at most `most` items and returns the answers in their order. One question is under way
 * at a time, and the next one takes all items that have come meanwhile. Rejects with the error of
 * `ask`.
 */
export const gather = <Item, Answer>(
  ask: (items: readonly Item[]) => Promise<readonly Answer[]>,
  most: number,
): ((item: Item) => Promise<Answer>) => {
  let waiting: GatheredItem<Item, Answer>[] = [];
  let isBusy = false;
  const work = async (): Promise<void> => {
    if (isBusy) return;
    isBusy = true;
    while (waiting.length > 0) {
      const some = waiting.slice(0, most);
      waiting = waiting.slice(most);
      try {
        const answers = await ask(some.map(({ item }) => item));
        for (const [n, { done }] of some.entries()) done(answers[n]!);
      } catch (error) {
        for (const { failed } of some) failed(error);
      }
    }
    isBusy = false;
  };
  return (item) =>
    new Promise((done, failed) => {
      waiting.push({ item, done, failed });
      // All items that the loop has already read go together.
      setImmediate(work);
    });
};
