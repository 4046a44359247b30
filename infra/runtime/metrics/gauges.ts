// Gauges of figures that are read somewhere. One whose source cannot be read is unknown: it is
// removed, never 0.
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { Metrics, PartitionLag } from "../metric-counts.ts";

export const makersOf = (registry: Registry) => {
  const registers = [registry];
  return {
    counter: <L extends string>(name: string, help: string, labelNames: L[]) =>
      new Counter({ name, help, labelNames, registers }),
    /**
     * It is absent until it is set: the library would begin one without labels at 0, which was
     * never measured.
     */
    gauge: <L extends string>(name: string, help: string, labelNames: L[]) => {
      const gauge = new Gauge({ name, help, labelNames, registers });
      if (labelNames.length === 0) gauge.remove();
      return gauge;
    },
    histogram: <L extends string>(name: string, help: string, labelNames: L[], buckets: number[]) =>
      new Histogram({ name, help, labelNames, buckets, registers }),
  };
};
export type Makers = ReturnType<typeof makersOf>;

/** What is unknown has no series: 0 would say that nothing waits. */
export const setOrRemove = (one: Pick<Gauge<never>, "remove" | "set">, value: number | null): void =>
  value === null ? one.remove() : one.set(value);

/** Gauges of open dead letters, waiting money, and the balances of the ledger. */
export const waitingMetrics = ({
  gauge,
}: Makers): Pick<Metrics, "setOpenLetters" | "setWaitingMoney" | "setLedgerBalances"> => {
  const letters = gauge("tributary_dead_letters", "Dead letters that are open: waiting, retrying or parked", [
    "kind",
    "state",
  ]);
  const lettersAge = gauge("tributary_dead_letters_oldest_seconds", "Since the oldest of them failed first", [
    "kind",
    "state",
  ]);
  const waiting = gauge("tributary_waiting", "Refunds, decisions and held lines that wait; void: refunds too large", [
    "kind",
  ]);
  const waitingAge = gauge("tributary_waiting_oldest_seconds", "Since the oldest of them waits", ["kind"]);
  const balances = gauge("tributary_ledger_balance", "Commissions in units of the currency: expense = held + payable", [
    "account",
    "currency",
  ]);
  return {
    setOpenLetters: (open) => {
      letters.reset();
      lettersAge.reset();
      for (const { kind, state, count, seconds } of open ?? []) {
        letters.set({ kind, state }, count);
        lettersAge.set({ kind, state }, seconds);
      }
    },
    setWaitingMoney: (kinds) => {
      waiting.reset();
      waitingAge.reset();
      for (const { kind, count, seconds } of kinds ?? []) {
        waiting.set({ kind }, count);
        waitingAge.set({ kind }, seconds);
      }
    },
    setLedgerBalances: (accounts) => {
      balances.reset();
      for (const { account, currency, amount } of accounts ?? []) balances.set({ account, currency }, amount);
    },
  };
};

/** Metrics of the stores as the keeper probes them. */
export const storeMetrics = ({ counter, gauge }: Makers): Pick<Metrics, "setProbe" | "countRestart" | "setSyncLag"> => {
  const probes = gauge(
    "tributary_probe_state",
    "A store as its keeper finds it: 0 healthy, 1 failing, 2 restarting, 3 down",
    ["probe"],
  );
  const restarts = counter("tributary_restarts_total", "Restarts of a store that the keeper has ordered", ["probe"]);
  const syncLag = gauge(
    "tributary_relational_sync_lag_seconds",
    "Age of the oldest sale that is not in Postgres yet",
    [],
  );
  return {
    setProbe: (probe, level) => probes.set({ probe }, level),
    countRestart: (probe) => restarts.inc({ probe }),
    setSyncLag: (seconds) => (seconds === null ? syncLag.remove() : syncLag.set(seconds)),
  };
};

/** Consumer groups. */
export const groupMetrics = ({ gauge }: Makers): Pick<Metrics, "setLag"> => {
  // The names of the exporters that people already graph.
  const lag = gauge("kafka_consumergroup_group_lag", "Records not yet committed by the group", [
    "group",
    "topic",
    "partition",
  ]);
  const lagSeconds = gauge("kafka_consumergroup_group_lag_seconds", "Age of the oldest of them", [
    "group",
    "topic",
    "partition",
  ]);
  const shown = new Map<string, readonly PartitionLag[]>();
  return {
    setLag: (group, partitions) => {
      for (const { topic, partition } of shown.get(group) ?? []) {
        lag.remove({ group, topic, partition });
        lagSeconds.remove({ group, topic, partition });
      }
      shown.set(group, partitions ?? []);
      for (const { topic, partition, ...now } of partitions ?? []) {
        lag.set({ group, topic, partition }, now.lag);
        lagSeconds.set({ group, topic, partition }, now.seconds);
      }
    },
  };
};

/** Figures of the keeper and of the machine that a rule watches. */
export const figureMetrics = ({
  gauge,
}: Makers): Pick<
  Metrics,
  | "setKnown"
  | "setReadAgain"
  | "setUnbalanced"
  | "setSilentClients"
  | "setPullAge"
  | "setMails"
  | "setDisk"
  | "setExpiry"
> => {
  const known = gauge(
    "tributary_figure_known",
    "1 while the source of these figures can be read; at 0 they are absent",
    ["figure"],
  );
  const readAgain = gauge("tributary_read_again", "1 while a sink gets events that were written before", ["sink"]);
  const unbalanced = gauge(
    "tributary_ledger_unbalanced",
    "Sum of all lines of the ledger in units of the currency; always 0",
    ["currency"],
  );
  const silent = gauge(
    "tributary_silent_clients",
    "Clients that sent events within the hour before, now none for 15 min",
    [],
  );
  const pullAge = gauge("tributary_pull_age_seconds", "Since that active source was pulled which waits longest", []);
  const mails = gauge("tributary_mails_waiting", "Mails and alerts that no server has taken", ["kind"]);
  const mailsAge = gauge("tributary_mails_waiting_oldest_seconds", "Since the oldest of them was written", ["kind"]);
  const free = gauge("tributary_disk_free_bytes", "Room for this process on the disk of a folder", ["place"]);
  const size = gauge("tributary_disk_size_bytes", "The whole of that disk", ["place"]);
  const expiry = gauge("tributary_certificate_not_after_timestamp_seconds", "When the certificate in use ends", []);
  return {
    setKnown: (figure, isKnown) => known.set({ figure }, isKnown ? 1 : 0),
    setReadAgain: (sinks) => {
      readAgain.reset();
      for (const [sink, isReadAgain] of sinks ?? []) readAgain.set({ sink }, isReadAgain ? 1 : 0);
    },
    setUnbalanced: (sums) => {
      unbalanced.reset();
      for (const { currency, amount } of sums ?? []) unbalanced.set({ currency }, amount);
    },
    setSilentClients: (count) => setOrRemove(silent, count),
    setPullAge: (seconds) => setOrRemove(pullAge, seconds),
    setMails: (kinds) => {
      mails.reset();
      mailsAge.reset();
      for (const { kind, count, seconds } of kinds ?? []) {
        mails.set({ kind }, count);
        mailsAge.set({ kind }, seconds);
      }
    },
    setDisk: (place, room) => {
      if (room === null) {
        free.remove({ place });
        size.remove({ place });
      } else {
        free.set({ place }, room.free);
        size.set({ place }, room.size);
      }
    },
    setExpiry: (notAfter) => setOrRemove(expiry, notAfter === null ? null : notAfter / 1_000),
  };
};
