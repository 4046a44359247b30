// The hosts of a client's pages, as a body names them.
import { hostOf } from "../../../modules/catalog/pixel/pixel-config.ts";
import { fault } from "./accept.ts";

const MOST_DOMAINS = 200;

/**
 * Each host once, from a list or from lines that stand at `place` of the body. Throws Problem 400.
 */
export const hostsIn = (given: string | readonly string[], place = "/allowed_domains"): readonly string[] => {
  const isText = typeof given === "string";
  const lines = isText ? given.split(/\r?\n/) : given;
  const hosts = lines.flatMap((line, n) => {
    if (isText && line.trim() === "") return [];
    const host = hostOf(line);
    if (host !== undefined) return host;
    throw fault(
      isText ? place : `${place}/${n}`,
      "invalid_value",
      `${isText ? `line ${n + 1}: ` : ""}give a host like shop.example or *.shop.example, without scheme and port`,
    );
  });
  const once = [...new Set(hosts)];
  if (once.length > MOST_DOMAINS) throw fault(place, "too_big", `at most ${MOST_DOMAINS} hosts`);
  return once;
};
