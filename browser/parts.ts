// Loads the files beside the script that only some pages need, or that can wait.
import { doc } from "./guard.ts";
import type { Tracker } from "./tracker.ts";

/** The loaded file finds `given` as properties of its own script element. */
export const loadPart = ({ base, nonce }: Pick<Tracker, "base" | "nonce">, file: string, given: object): void => {
  const script = Object.assign(doc.createElement("script"), given);
  script.src = `${base}/${file}`;
  script.nonce = nonce;
  script.onload = script.onerror = () => script.remove();
  doc.head.appendChild(script);
};
