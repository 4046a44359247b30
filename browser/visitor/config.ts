// The client's configuration from the pixel host. Without it every default holds.
import { quietly } from "../guard.ts";

export interface Config {
  /** The mask of a visitor who has not chosen yet. */
  readonly consent_default: number;
  readonly auto_signals: boolean;
  readonly click_days: number;
  readonly payment_referrers: readonly string[];
  readonly replay_enabled: boolean;
  /** Percent of visits. */
  readonly replay_sample_rate: number;
  /** If true, only visitors who have made a choice are recorded. */
  readonly consent_replay: boolean;
  /** Shows the host that this page asked it; the first chunk of a visit needs one. */
  readonly replay_ticket?: string | undefined;
}

const DAYS_OF_A_CLICK = 30;
/** Payment pages that send visitors back after a purchase; they are no referrers. */
const PAYMENT_HOSTS =
  "stripe.com mercadopago.com mercadopago.com.mx paypal.com conekta.com conekta.io openpay.mx".split(" ");
export const DEFAULTS: Config = {
  consent_default: 0xff,
  auto_signals: true,
  click_days: DAYS_OF_A_CLICK,
  payment_referrers: PAYMENT_HOSTS,
  replay_enabled: false,
  replay_sample_rate: 0,
  consent_replay: false,
};

/** A value of an unexpected form keeps its default. */
const configIn = (text: string): Config => {
  const given = quietly(() => JSON.parse(text) as Readonly<Record<string, unknown>>) ?? {};
  const { consent_default: mask, auto_signals, click_days: days, payment_referrers: hosts } = given;
  return {
    consent_default: typeof mask === "number" ? mask & 0xff : DEFAULTS.consent_default,
    auto_signals: auto_signals !== false,
    click_days: typeof days === "number" && days > 0 ? days : DEFAULTS.click_days,
    payment_referrers: Array.isArray(hosts) ? hosts.map(String) : DEFAULTS.payment_referrers,
    replay_enabled: given.replay_enabled === true,
    replay_sample_rate: Number(given.replay_sample_rate),
    consent_replay: given.consent_replay !== false,
    replay_ticket: typeof given.replay_ticket === "string" ? given.replay_ticket : undefined,
  };
};

/** Asks the host once. Calls `done` exactly once, with null if the host did not answer in time. */
export const askForConfig = (url: string, done: (config: Config | null) => void): void => {
  let isDone = false;
  const finish = (config: Config | null): void => {
    if (!isDone) done(config);
    isDone = true;
  };
  const isAsked = quietly(() => {
    const request = new XMLHttpRequest();
    request.open("GET", url);
    request.timeout = 2_000;
    request.onload = () => finish(request.status === 200 ? configIn(request.responseText) : null);
    request.onerror = request.ontimeout = request.onabort = () => finish(null);
    request.send();
    return true;
  });
  if (isAsked === undefined) finish(null);
};
