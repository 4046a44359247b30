// How the supervisor runs a server: how to install it, prepare its data, spawn it and check its
// health, and where others find it.
import type { AppLogin } from "../postgres/logins.ts";
import type { Home, Secrets } from "./home.ts";

/** The first broker, and the further ones of a cluster. */
export type BrokerName = "kafka" | "kafka-2" | "kafka-3";
export type ServiceName =
  | BrokerName
  | "redis"
  | "postgres"
  | "clickhouse"
  | "registry"
  | "identity"
  | "mail"
  | "payments";

/**
 * Everything that a service may look at: its folder, the ports of all services by name, the
 * secrets, and the addresses known so far.
 */
export interface Place {
  readonly home: Home;
  readonly ports: Readonly<Record<string, number>>;
  /** Ports that are published instead of a service's own, where a proxy stands before it. */
  readonly fronts: Readonly<Record<string, number>>;
  readonly secrets: Secrets;
  readonly env: Readonly<Record<string, string>>;
  readonly machine: { readonly path: string; readonly javaHome: string | undefined };
}

/** A process to spawn, with `uid` and `gid` only if it must not run as our user. */
export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly uid?: number;
  readonly gid?: number;
}

/** The entry of a service in `run.json`; the supervisor adds `pid`. */
export type Address = { readonly brokers: string } | { readonly url: string };

export interface Service {
  readonly name: ServiceName;
  /**
   * The variable that, when set from outside, means that a server elsewhere is used and none is
   * started.
   */
  readonly outside: string;
  /** Services that must be healthy before this one starts. */
  readonly after: readonly ServiceName[];
  /** Names of the ports it listens on. */
  readonly ports: readonly string[];
  /**
   * Brings the program onto this machine; quick if it is there already. Errors say in one sentence
   * what is missing and how to repair it.
   */
  readonly install: (place: Place) => Promise<void>;
  /**
   * What keeps it from starting on this machine, each with its cure. It changes nothing, and is
   * asked before anything is started.
   */
  readonly faults?: (place: Place) => readonly string[];
  /**
   * The version of a server whose data an older one cannot read; undefined while it is not
   * installed.
   */
  readonly version?: (place: Place) => string | undefined;
  /** Makes or repairs the data folder; nothing of this service runs meanwhile. */
  readonly prepare: (place: Place) => Promise<void>;
  readonly command: (place: Place) => Command;
  /** Resolves when the server answers; otherwise rejects within about a second. */
  readonly healthy: (place: Place) => Promise<void>;
  /** Asks the server to finish, flush and exit. */
  readonly stopSignal: NodeJS.Signals;
  /** Variables with its address for others. */
  readonly variables: (place: Place) => Readonly<Record<string, string>>;
  /**
   * The variables that an app gets instead: a login with the rights that the app needs, and no
   * more.
   */
  readonly appVariables?: (place: Place, login: AppLogin) => Readonly<Record<string, string>>;
  readonly address: (variables: Readonly<Record<string, string>>) => Address;
}
