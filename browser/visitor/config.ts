// The client's configuration from the pixel host. Without it nothing is observed, kept or granted.
import { quietly, runs } from "../guard.ts";

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
/** Each of these allows no more than any configuration would. */
export const DEFAULTS: Config = {
  consent_default: 0,
  auto_signals: false,
  click_days: DAYS_OF_A_CLICK,
  payment_referrers: PAYMENT_HOSTS,
  replay_enabled: false,
  replay_sample_rate: 0,
  consent_replay: true,
};

/** A value of an unexpected form keeps its default. */
const configIn = (text: string): Config => {
  const given = quietly(() => JSON.parse(text) as Readonly<Record<string, unknown>>) ?? {};
  const { consent_default: mask, auto_signals, click_days: days, payment_referrers: hosts } = given;
  return {
    // What is no number grants nothing.
    consent_default: (mask as number) & 0xff,
    auto_signals: auto_signals === true,
    click_days: (days as number) > 0 ? (days as number) : DAYS_OF_A_CLICK,
    payment_referrers: Array.isArray(hosts) ? hosts.map(String) : DEFAULTS.payment_referrers,
    replay_enabled: given.replay_enabled === true,
    replay_sample_rate: Number(given.replay_sample_rate),
    consent_replay: given.consent_replay !== false,
    replay_ticket: typeof given.replay_ticket === "string" ? given.replay_ticket : undefined,
  };
};

/** A slow host still tells what may be observed, though events no longer wait for it. */
const PATIENCE_MS = 10_000;

/** Asks the host once. Calls `done` with null if the host did not answer in time. */
export const askForConfig = (url: string, done: (config: Config | null) => void): void => {
  const fail = () => done(null);
  const isAsked = runs(() => {
    const request = new XMLHttpRequest();
    request.open("GET", url);
    request.timeout = PATIENCE_MS;
    request.onload = () => done(request.status === 200 ? configIn(request.responseText) : null);
    request.onerror = request.ontimeout = request.onabort = fail;
    request.send();
  });
  if (!isAsked) fail();
};
