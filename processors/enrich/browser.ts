// Reads a user agent: device, browser, operating system, and whether it calls itself a bot.
import bowser from "bowser";
import { isbot } from "isbot";
import { memo } from "../../domain/memo.ts";

export interface UserAgent {
  /** desktop, mobile, tablet, tv or unknown. */
  readonly device: string;
  readonly browser: string | null;
  readonly os: string | null;
  readonly isBot: boolean;
  readonly error: "ua_failed" | null;
}

/** Parsing costs 7 us. 10,000 cached texts cover nearly all visitors of a day. */
const userAgentsRemembered = 10_000;
const devices: ReadonlySet<string> = new Set(["desktop", "mobile", "tablet", "tv"]);

const parse = (text: string): UserAgent => {
  try {
    const { browser, os, platform } = bowser.parse(text);
    return {
      device: platform.type !== undefined && devices.has(platform.type) ? platform.type : "unknown",
      browser: browser.name || null,
      os: os.name || null,
      isBot: isbot(text),
      error: null,
    };
  } catch {
    return { device: "unknown", browser: null, os: null, isBot: false, error: "ua_failed" };
  }
};

/** Used for a user agent that is missing or not the visitor's. */
export const noUserAgent: UserAgent = { device: "unknown", browser: null, os: null, isBot: false, error: null };

/** Pure: the same text gives the same result. An empty text counts as missing. */
export const userAgentOf: (text: string) => UserAgent = memo(userAgentsRemembered, (text) =>
  text === "" ? noUserAgent : parse(text),
);
