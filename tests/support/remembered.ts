// Memory as bytes, read and written as a fold does it.
import type { MemoryOf, Recorded } from "../../stream/flow.ts";

type Bytes = Uint8Array | undefined;
const read = (memory: MemoryOf<any>, bytes: Bytes): unknown => (bytes === undefined ? undefined : memory.decode(bytes));

export const stateFrom = <State>(memory: MemoryOf<State>, keys: readonly string[], bytes: readonly Bytes[]): State =>
  memory.stateOf(
    keys,
    bytes.map((one) => read(memory, one)),
  );

export const bytesOf = <State>(
  memory: MemoryOf<State>,
  keys: readonly string[],
  before: State,
  after: State,
): readonly { readonly key: string; readonly value: Uint8Array }[] =>
  memory.changes(keys, before, after).map(({ key, value }) => ({ key, value: memory.encode(value) }));

/**
 * The keys that an event reads, including those that the values of its first keys name, and its
 * state.
 */
export const metBy = <State>(
  memory: MemoryOf<State>,
  event: Recorded<unknown>,
  known: ReadonlyMap<string, Uint8Array>,
): { readonly keys: readonly string[]; readonly state: State } => {
  const first = memory.keysOf(event);
  const namedBy = (met: readonly string[]): readonly string[] =>
    memory.furtherKeysOf?.(
      event,
      met.map((key) => read(memory, known.get(key))),
    ) ?? [];
  let further = namedBy(first);
  for (let before = 0; further.length > before; ) {
    before = further.length;
    further = namedBy([...first, ...further]);
  }
  const keys = [...first, ...further];
  return {
    keys,
    state: stateFrom(
      memory,
      keys,
      keys.map((key) => known.get(key)),
    ),
  };
};
