// Parses the hosts of a client's pages as a person lists them.
import { invalid } from "../../base/refusal.ts";
import { hostOf } from "./pixel-config.ts";

const MOST_HOSTS = 200;

/**
 * Returns each host once, from a list or from lines at `path` of the input. Throws RefusalError:
 * invalid `invalid_value` and `too_big`.
 */
export const hostsIn = (given: string | readonly string[], path = "/allowed_domains"): readonly string[] => {
  const isText = typeof given === "string";
  const lines = isText ? given.split(/\r?\n/) : given;
  const hosts = lines.flatMap((line, n) => {
    if (isText && line.trim() === "") return [];
    const host = hostOf(line);
    if (host !== undefined) return host;
    throw invalid(
      isText ? path : `${path}/${n}`,
      "invalid_value",
      `${isText ? `line ${n + 1}: ` : ""}give a host like shop.example or *.shop.example, without scheme and port`,
    );
  });
  const once = [...new Set(hosts)];
  if (once.length > MOST_HOSTS) throw invalid(path, "too_big", `at most ${MOST_HOSTS} hosts`);
  return once;
};
