// Texts of the mails about a backfill, which applies a rule to past events.
import type { MailFacts, Template } from "./mails.ts";
import type { DateWords, Writer } from "./words.ts";

type BackfillWriters = Readonly<Record<Extract<Template, `backfill_${string}`>, Writer>>;
type Facts = Required<MailFacts>;

const spanish = (facts: Facts, { days }: DateWords, money: readonly string[]) => ({
  subject: `Aplicación retroactiva de ${facts.rule}: terminada`,
  sentences: [
    `La regla ${facts.rule} se aplicó a los eventos${days(facts.starts_on, facts.ends_on)}.`,
    `Eventos leídos: ${facts.evaluated}; que cumplen la regla: ${facts.matched}; atribuidos: ${facts.applied}.`,
    ...money,
    `Meses cerrados de socios afectados: ${facts.closed}.`,
  ],
});
const english = (facts: Facts, { days }: DateWords, money: readonly string[]) => ({
  subject: `Backfill of ${facts.rule}: done`,
  sentences: [
    `The rule ${facts.rule} was applied to events${days(facts.starts_on, facts.ends_on)}.`,
    `Events read: ${facts.evaluated}; met by the rule: ${facts.matched}; credited: ${facts.applied}.`,
    ...money,
    `Closed months of partners concerned: ${facts.closed}.`,
  ],
});

export const spanishBackfills: BackfillWriters = {
  backfill_recalculated: (facts, written) =>
    spanish(facts, written, [
      `Comisión que se mueve: ${facts.money}.`,
      ...(facts.left === 0 ? [] : [`Quedan como estaban, por ser de meses cerrados: ${facts.left}.`]),
    ]),
  backfill_completed: (facts, written) =>
    spanish(facts, written, [
      `No se movió comisión, pues no se pidió; con recálculo serían ${facts.money}.`,
      ...(facts.left === 0 ? [] : [`Quedan como estaban, pues moverlos movería dinero: ${facts.left}.`]),
    ]),
};

export const englishBackfills: BackfillWriters = {
  backfill_recalculated: (facts, written) =>
    english(facts, written, [
      `Commission that moves: ${facts.money}.`,
      ...(facts.left === 0 ? [] : [`Left as they were, for they are of closed months: ${facts.left}.`]),
    ]),
  backfill_completed: (facts, written) =>
    english(facts, written, [
      `No commission moved, for that was not asked; with recalculation it would be ${facts.money}.`,
      ...(facts.left === 0 ? [] : [`Left as they were, for moving them would move money: ${facts.left}.`]),
    ]),
};
