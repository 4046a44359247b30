// Texts of the mail about a quota of events that is nearly or wholly spent.
import type { Template } from "./mails.ts";
import type { Writer } from "./words.ts";

type QuotaWriter = Readonly<Record<Extract<Template, "intake_quota">, Writer>>;

export const spanishQuota: QuotaWriter = {
  intake_quota: ({ name, plan, side, percent, at }, { moment }) => {
    const what = side === "open" ? "lo que cualquiera puede enviar" : "lo que llega con credencial";
    const whose = name === "" ? "sin cliente conocido" : `de ${name}`;
    return {
      subject: `Cuota de eventos ${whose}: ${percent} %`,
      sentences: [
        `El ${moment(at)} se había usado el ${percent} % de la cuota (plan ${plan}) de ${what} ${whose}.`,
        percent < 100
          ? "Desde el 90 % se rechazan visitas y grabaciones (429), y a partir del 100 % también las compras."
          : "Se rechaza todo lo que entra por ahí (429); los remitentes lo repiten. La cuota vuelve en unas horas.",
        "Si es tráfico legítimo, un operador puede subirla: tributary quotas set.",
      ],
    };
  },
};

export const englishQuota: QuotaWriter = {
  intake_quota: ({ name, plan, side, percent, at }, { moment }) => {
    const what = side === "open" ? "what anyone can send" : "what comes with a credential";
    const whose = name === "" ? "without a known client" : `of ${name}`;
    return {
      subject: `Quota of events ${whose}: ${percent} %`,
      sentences: [
        `On ${moment(at)}, ${percent} % of the quota (plan ${plan}) of ${what} ${whose} was spent.`,
        percent < 100
          ? "From 90 % on page views and recordings are refused (429), from 100 % on purchases too."
          : "All that comes in there is refused (429), and its senders repeat it. The quota comes back within hours.",
        "If the traffic is real, an operator can raise it: tributary quotas set.",
      ],
    };
  },
};
