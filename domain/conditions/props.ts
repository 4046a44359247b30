// The props of an event as the log holds them: one JSON text, of which few events show what is
// looked for.

export type Props = Readonly<Record<string, unknown>>;

const noProps: Props = {};

/**
 * What the text holds. Edges write it; if it is broken all the same, the event has no props rather
 * than no outcome.
 */
export const propsOf = (text: string): Props => {
  try {
    const props: unknown = JSON.parse(text);
    return typeof props === "object" && props !== null ? (props as Props) : noProps;
  } catch {
    return noProps;
  }
};

/**
 * False when the text has no member of that name, at any depth: it would stand there as it is
 * written here, unless something in the text is written with an escape. A look costs a tenth of a
 * parse.
 */
export const mayName = (text: string, name: string): boolean => text.includes(`"${name}"`) || text.includes("\\");
