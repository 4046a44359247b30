// The pixel: takes over the queue of the page's snippet and runs the commands `svc(command, ...)`.
// No error in here reaches the page, and the page sees one global: svc.
import { CONSENT_VERSION } from "../domain/personal/choice.ts";
import { toJson } from "./data/json.ts";
import { openSender } from "./delivery/sender.ts";
import { doc, guarded, later, quietly, runs, whenIdle, win } from "./guard.ts";
import { type LeadDefaults, openLeads } from "./leads.ts";
import { openRecorder } from "./recorder/begin.ts";
import { startForms } from "./signals/forms.ts";
import { startSignals } from "./signals/signals.ts";
import { openTracker } from "./tracker.ts";
import { askForConfig, type Config, DEFAULTS } from "./visitor/config.ts";
import { openVisitor } from "./visitor/visitor.ts";

/** The options of `svc("init", options)`. */
interface Options {
  readonly client_id: number;
  readonly auto_lead_on_submit?: boolean;
  readonly lead_defaults?: LeadDefaults;
  /**
   * The address of the pixel host, if the script comes from another address, for example a proxy.
   */
  readonly host?: string;
}
type Svc = ((command: unknown, ...args: unknown[]) => void) & { q?: ArrayLike<unknown>[]; v?: number };
type Commands = Readonly<Record<string, (...args: readonly any[]) => void>>;

const VERSION = 1;
/**
 * If the host has not answered after this time, events are sent without its configuration.
 * Milliseconds.
 */
const CONFIG_MS = 2_000;

const own = doc.currentScript as HTMLScriptElement | null;
/** The folder that this script was loaded from; "" if the browser does not say. */
const ownBase = quietly(() => own!.src.replace(/\/[^/]*$/, "")) || "";

/** Returns 0 if there is no client id. */
const clientOf = (options: Options): number => {
  const id = Number(options.client_id);
  return id > 0 && id < 2 ** 31 && id % 1 === 0 ? id : 0;
};

const say = (text: string): void => {
  quietly(() => win.console.warn(`svc: ${text}`));
};

interface Instance {
  readonly commands: Commands;
  /** Reports a problem of the installation, once. */
  readonly problem: (code: string) => void;
}

/** Starts everything after `init`. */
const start = (options: Options, clientId: number, base: string): Instance => {
  const visitor = openVisitor();
  const envelope = (events: string): string => {
    const { did, sid } = visitor.stamp();
    return `${toJson({ cid: clientId, did, sid, sent_at: Date.now() }).slice(0, -1)},"events":[${events}]}`;
  };
  const sender = openSender({ url: `${base}/e`, clientId }, envelope, visitor.mayStore);
  let config: Config = DEFAULTS;
  const tracker = openTracker({ visitor, sender, base, nonce: own?.nonce || "" }, () => referrer(config));
  const leads = openLeads(tracker, options.lead_defaults ?? {});

  const replay = openRecorder(tracker, clientId);
  tracker.onPage(replay);

  const reportChoice = (): void => {
    const { consent } = visitor.stamp();
    const said = typeof consent === "number" ? { mask: consent } : consent;
    tracker.event("consent", { ...said, at: Date.now(), consent_version: CONSENT_VERSION });
  };

  let isOpen = false;
  const banners: ((state: ReturnType<typeof visitor.state>) => void)[] = [];
  const open = (): void => {
    isOpen || sender.open();
    isOpen = true;
    for (const banner of banners.splice(0)) runs(() => banner(visitor.state()));
  };
  const configured = (given: Config | null): void => {
    config = given ?? DEFAULTS;
    if (visitor.configure(given)) reportChoice();
    open();
    // Without a configuration nothing is observed.
    if (given !== null)
      whenIdle(() => {
        startSignals(tracker);
        replay();
      });
  };
  askForConfig(`${base}/config?cid=${clientId}`, guarded(configured));
  later(CONFIG_MS, open);
  startForms(tracker, leads, options.auto_lead_on_submit === true);

  let reported = "";
  return {
    problem: (code) => {
      if (reported === code) return;
      reported = code;
      tracker.event("pixel_problem", { code });
    },
    commands: {
      page: (props) => tracker.page(props),
      event: (name, props) => void tracker.event(name, props),
      lead: (lead) => leads.report(lead),
      consent: (choice) => {
        if (typeof choice === "function") {
          banners.push(choice);
          if (isOpen) open();
        } else if (visitor.choose(choice)) reportChoice();
        replay();
      },
    },
  };
};

/** The referrer of this page; none if a payment page sent the visitor back. */
const referrer = ({ payment_referrers: hosts }: Config): string => {
  const from = doc.referrer;
  const host = from.split(/[/:?#]+/)[1];
  return hosts.some((one) => `.${host}`.endsWith(`.${one}`)) ? "" : from;
};

const MOST_EARLY = 100;

/** Makes the function `svc`; commands before `init` wait for it. */
const makeSvc = (): Svc => {
  const early: unknown[][] = [];
  let running: ReturnType<typeof start> | undefined;
  const init = (given: Options | undefined): void => {
    const options = given || { client_id: 0 };
    const clientId = clientOf(options);
    const base = `${options.host || ownBase}`.replace(/\/+$/, "");
    if (running !== undefined) running.problem("double_init");
    else if (clientId === 0) say("init needs client_id, a number");
    else if (base === "") say("init needs host: the pixel host");
    else {
      running = start(options, clientId, base);
      for (const call of early.splice(0)) run(call);
    }
  };
  const run = guarded(([command, ...args]: readonly unknown[]): void => {
    if (command === "init") init(args[0] as Options);
    else if (running === undefined) {
      if (early.length < MOST_EARLY) early.push([command, ...args]);
    } else {
      const name = `${command}`;
      if (Object.keys(running.commands).includes(name)) running.commands[name]!(...args);
      else say(`no command ${name}`);
    }
  });
  const svc: Svc = (...call: unknown[]) => run(call);
  svc.v = VERSION;
  return svc;
};

quietly(() => {
  const page = win as unknown as { svc?: Svc };
  const stub = page.svc;
  // The script is loaded twice, or the page has a `svc` of its own: nothing is changed.
  if (stub && (stub.v || typeof stub !== "function")) return;
  const svc = makeSvc();
  page.svc = svc;
  for (const call of Array.from(stub?.q || [])) svc(...(Array.from(call) as [unknown]));
});
