// Reads the props of an event, which the log holds as one JSON text.

export type Props = Readonly<Record<string, unknown>>;

const noProps: Props = {};

/**
 * Parses the text. Edges write valid JSON; if the text is broken anyway, the event counts as having
 * no props.
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
 * False if the text certainly has no member of that name at any depth. An escape in the text means
 * that it may have. The check costs a tenth of parsing.
 */
export const mayName = (text: string, name: string): boolean => text.includes(`"${name}"`) || text.includes("\\");
