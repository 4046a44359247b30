// Tests a processor: given a state and facts, when an event comes, then this is its outcome.
import { expect } from "vitest";
import type { Outcome, Processor, Recorded } from "../../stream/flow.ts";

/**
 * Only stated fields are checked: objects may have further fields, lists must have the same length.
 */
interface Expected<Out, State, Reason> {
  /**
   * By output: the data of its one event, or of all of its events in order. All other outputs must
   * stay empty.
   */
  readonly emits?: { readonly [Name in keyof Out]?: DeepPartial<Out[Name]> | readonly DeepPartial<Out[Name]>[] };
  readonly drops?: Reason;
  readonly rejects?: Reason;
  readonly state?: State;
}
type DeepPartial<T> = T extends bigint | Buffer | readonly unknown[]
  ? T
  : T extends object
    ? { readonly [K in keyof T]?: DeepPartial<T[K]> }
    : T;

/** `state` and `facts` have the types of the processor; null if it has none. */
export const given = <In, Out, State, Facts, Reason extends string>(
  processor: Processor<In, Out, State, Facts, Reason>,
  { state, facts }: NoInfer<{ readonly state: State; readonly facts: Facts }>,
) => ({
  when: (event: Recorded<NoInfer<In>>) => {
    const outcome: Outcome<Out, State, Reason> = processor(event, state, facts);
    // biome-ignore lint/suspicious/noThenProperty: given, when, then are the words of every test; no test awaits it
    return { outcome, then: (expected: NoInfer<Expected<Out, State, Reason>>) => check(outcome, expected) };
  },
});

const check = <Out, State, Reason>(
  outcome: Outcome<Out, State, Reason>,
  expected: Expected<Out, State, Reason>,
): void => {
  const kind = expected.rejects !== undefined ? "reject" : expected.drops !== undefined ? "drop" : "emit";
  expect(outcome, `became ${outcome.kind}`).toMatchObject({ kind });
  if (outcome.kind !== "emit") expect(outcome.reason).toBe(expected.rejects ?? expected.drops);
  if (outcome.kind === "emit" && expected.emits !== undefined) {
    const emitted = byOutput(outcome.events);
    expect(emitted).toMatchObject(listed(expected.emits));
    expect(Object.keys(emitted).sort(), "outputs").toEqual(Object.keys(expected.emits).sort());
  }
  if ("state" in expected) expect(outcome.state).toEqual(expected.state);
};

const byOutput = (
  events: readonly { readonly output: PropertyKey; readonly data: unknown }[],
): Record<string, unknown[]> => {
  const outputs: Record<string, unknown[]> = {};
  for (const { output, data } of events) {
    const name = String(output);
    outputs[name] = [...(outputs[name] ?? []), data];
  }
  return outputs;
};
const listed = (emits: object): Record<string, unknown> =>
  Object.fromEntries(Object.entries(emits).map(([output, data]) => [output, Array.isArray(data) ? data : [data]]));
