// Where dead letters go: the source of an event decides, so that each kind is looked for in one
// topic.
import type { DeadLetterRoute } from "../stream/flow.ts";

/** The name of a dead-letter topic without its suffix: which kind of edge or reader refused. */
export type LetterKind = "clicks" | "pixel" | "s2s";
export const letterKinds: readonly LetterKind[] = ["clicks", "pixel", "s2s"];

/** The kind of the letters in each dead-letter topic. */
export const letterTopics: Readonly<Record<LetterKind, string>> = {
  clicks: "clicks.dlq",
  pixel: "pixel.dlq",
  s2s: "s2s.dlq",
};

export const letterKindOf = (topic: string): LetterKind =>
  letterKinds.find((kind) => letterTopics[kind] === topic) ?? "s2s";

/**
 * Codes of bodies that name no event at all. No client, mapping or setting that is saved later
 * makes an event of them.
 */
const neverEvents: ReadonlySet<string> = new Set([
  "bad_json",
  "bad_events",
  "bad_payload",
  "body_too_large",
  "missing_cid",
]);

/**
 * A stranger's body that can never become an event. Edges keep a sample of these, and the keeper
 * does not send them again. Of a sender with a credential every letter is kept and retried.
 */
export const isNeverEvent = (code: string, isStranger: boolean): boolean => isStranger && neverEvents.has(code);

/** How many of these an edge process keeps of each code in a minute. */
export const SAMPLES_A_MINUTE = 5;

/** Every record of the first chain holds the event itself or under `event`. */
export const deadLetters: DeadLetterRoute = (record) => {
  const source: unknown = record?.data.source ?? record?.data.event?.source ?? record?.data.attributed?.event.source;
  if (source === "link") return letterTopics.clicks;
  return source === "pixel" ? letterTopics.pixel : letterTopics.s2s;
};
