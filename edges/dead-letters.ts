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

/** Every record of the first chain holds the event itself or under `event`. */
export const deadLetters: DeadLetterRoute = (record) => {
  const source: unknown = record?.data.source ?? record?.data.event?.source ?? record?.data.attributed?.event.source;
  if (source === "link") return letterTopics.clicks;
  return source === "pixel" ? letterTopics.pixel : letterTopics.s2s;
};
