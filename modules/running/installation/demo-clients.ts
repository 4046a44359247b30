// The three shops of the demonstration, as changes of reference data.
import type { ReferenceChanges } from "../../catalog/reference/entities.ts";

/**
 * Older than any sale that the pipeline accepts (24 months back), so that every contract and rule
 * applies whenever the seed runs.
 */
const since = "2020-01-01";

/**
 * One client of the demonstration. Negative ids are placeholders within the change that creates it.
 */
interface DemoClient {
  readonly slug: string;
  readonly changes: ReferenceChanges;
}

const purchasesOf = (partner: number) => ({
  partner_id: partner,
  client_id: -1,
  event_type: "purchase",
  effective_from: since,
});
const percent = (
  partner: number,
  rate: string,
  more: { readonly segment?: string; readonly event_type?: string } = {},
) => ({
  ...purchasesOf(partner),
  type: "percent" as const,
  rate,
  ...more,
});
const partner = (id: number, name: string, email: string, referral_code: string) => ({
  partner_id: id,
  name,
  email,
  client_ids: [-1],
  referral_code,
});
const campaign = (id: number, name: string, destination_url: string, status: "active" | "paused" = "active") => ({
  campaign_id: id,
  client_id: -1,
  name,
  status,
  destination_url,
});
const link = (id: number, code: string, campaignId: number, partnerId: number) => ({
  link_id: id,
  code,
  campaign_id: campaignId,
  partner_id: partnerId,
});

/** Three fictional shops. All names are of organisations, and no real client owns the addresses. */
export const demoClients: readonly DemoClient[] = [
  {
    slug: "aurora-music",
    changes: {
      // Its orders of 18 months are sent in one day, and each is of the month in which it was made.
      clients: [{ client_id: -1, slug: "aurora-music", name: "Aurora Music", currency: "USD", late_hours: 17_568 }],
      partners: [
        {
          ...partner(-1, "Indie Radio Network", "payouts@indie-radio.example", "indie-radio"),
          payout: { currency: "USD", min_amount: "25.00" },
        },
        {
          ...partner(-2, "Vinyl Collectors Guild", "office@vinyl-guild.example", "vinyl-guild"),
          payout: { currency: "USD", min_amount: "25.00" },
        },
        // Clicks of this partner are credited and earn nothing, because it has no contract.
        {
          ...partner(-3, "Campus Playlist", "hello@campus-playlist.example", "campus-playlist"),
          payout: { currency: "USD" },
        },
      ],
      campaigns: [
        campaign(-1, "CD catalogue", "https://shop.aurora-music.example/cds"),
        campaign(-2, "Spring vinyl", "https://shop.aurora-music.example/vinyl", "paused"),
      ],
      links: [
        link(-1, "aurora-radio", -1, -1),
        link(-2, "aurora-vinyl", -1, -2),
        link(-3, "aurora-campus", -1, -3),
        link(-4, "aurora-spring", -2, -2),
      ],
      contracts: [percent(-1, "10"), percent(-2, "8")],
      rules: [
        {
          rule_id: -1,
          client_id: -1,
          name: "CDs are sold by the radio network",
          when: { field: "props.product_id", op: "eq", value: "cd" },
          // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
          then: { partner_id: -1, campaign_id: -1 },
        },
      ],
    },
  },
  {
    slug: "casa-verde",
    changes: {
      clients: [{ client_id: -1, slug: "casa-verde", name: "Casa Verde", hold_days: { purchase: 15, lead_submit: 0 } }],
      partners: [
        partner(-1, "Mercado Jardín", "pagos@mercado-jardin.example", "mercado-jardin"),
        partner(-2, "Revista Hogar", "afiliados@revista-hogar.example", "revista-hogar"),
        partner(-3, "Cupones Norte", "pagos@cupones-norte.example", "cupones-norte"),
      ],
      campaigns: [
        campaign(-1, "Jardín y terraza", "https://www.casa-verde.example/jardin"),
        campaign(-2, "Liquidación de invierno", "https://www.casa-verde.example/liquidacion", "paused"),
      ],
      links: [link(-1, "verde-jardin", -1, -1), link(-2, "verde-hogar", -1, -2), link(-3, "verde-invierno", -2, -2)],
      contracts: [percent(-1, "12"), percent(-2, "6.5"), percent(-3, "4")],
      rules: [
        {
          rule_id: -1,
          client_id: -1,
          name: "Cupones VERDE",
          when: { field: "coupon", op: "starts_with", value: "VERDE" },
          // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
          then: { partner_id: -3, campaign_id: -1 },
        },
      ],
    },
  },
  {
    slug: "viento-travel",
    changes: {
      clients: [
        { client_id: -1, slug: "viento-travel", name: "Viento Travel", attribution: { click_window_days: 60 } },
      ],
      segments: [
        { client_id: -1, code: "VUELOS", name: "Vuelos" },
        { client_id: -1, code: "HOTELES", name: "Hoteles" },
        { client_id: -1, code: "MX", name: "México" },
      ],
      partners: [
        partner(-1, "Rutas del Sur", "comisiones@rutas-del-sur.example", "rutas-del-sur"),
        partner(-2, "Guía Mochilera", "pagos@guia-mochilera.example", "guia-mochilera"),
        // Credited but without a contract, like Campus Playlist.
        partner(-3, "Club Millas", "alianzas@club-millas.example", "club-millas"),
      ],
      campaigns: [
        campaign(-1, "Escapadas", "https://www.viento-travel.example/escapadas"),
        campaign(-2, "Semana Santa", "https://www.viento-travel.example/semana-santa", "paused"),
      ],
      links: [
        link(-1, "viento-sur", -1, -1),
        link(-2, "viento-mochila", -1, -2),
        link(-3, "viento-millas", -1, -3),
        link(-4, "viento-santa", -2, -1),
      ],
      contracts: [
        percent(-1, "3"),
        percent(-1, "5", { segment: "VUELOS" }),
        percent(-1, "9.25", { segment: "HOTELES" }),
        // A commission in tiers: the more this partner sells in a month, the higher its rate.
        // Renewals by a traveller's account pay for a year.
        {
          ...purchasesOf(-2),
          type: "tiered",
          tiers: [
            { from: 0, rate: "7" },
            { from: "50000.00", rate: "9" },
          ],
        },
        { ...purchasesOf(-2), event_type: "renewal", type: "recurring", rate: "7", months: 12 },
      ],
      rules: [
        {
          rule_id: -1,
          client_id: -1,
          name: "Campaña de correo de Guía Mochilera",
          when: {
            all: [
              { field: "t", op: "eq", value: "purchase" },
              { field: "url.query.utm_source", op: "eq", value: "guia-mochilera" },
            ],
          },
          // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
          then: { partner_id: -2, campaign_id: -1 },
        },
      ],
    },
  },
];
