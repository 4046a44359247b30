// Puts questions that come together as one, so that a round trip is paid once for many.

interface GatheredItem<Item, Answer> {
  readonly item: Item;
  readonly done: (answer: Answer) => void;
  readonly failed: (error: unknown) => void;
}

/**
 * `ask` gets at most `most` items at once and answers in their order; one question is under way at
 * a time, and the next one takes all that has come meanwhile. Rejects with what `ask` threw.
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
      // All that the loop has read already go together.
      setImmediate(work);
    });
};
