// What commission remembers of a customer under recurring contracts, and its bytes.
import type { UnixMs } from "../../../stream/flow.ts";
import type { SoldLine } from "../orders/order-format.ts";

/** A sale that earns nothing any more if the months of its customer turn out to begin earlier. */
export interface CustomerSale {
  readonly conversion_id: string;
  readonly at: UnixMs;
  /** The months of its own contract. */
  readonly months: number;
  /** Only if it shares the amounts of an order. */
  readonly order_id: string | null;
}

interface OfCustomer {
  /** The contracts' own segment. It names the orders of the sales. */
  readonly contract_segment: string | null;
  readonly sales: readonly CustomerSale[];
}
export interface Customer extends OfCustomer {
  readonly is: "customer";
  /** The first sale that is known. */
  readonly since: UnixMs;
  /**
   * True if these months were counted for a device, before persons existed. The months of the
   * device's person continue from them.
   */
  readonly is_of_device?: boolean;
  /** The calendar months whose further sales lie in values of their own. */
  readonly months: readonly string[];
}
/** The sales of one calendar month that have no place beside the customer's first sale. */
export interface CustomerMonth extends OfCustomer {
  readonly is: "customer_month";
}

type Row = readonly [id: string, at: UnixMs, months: number, order?: string];
const rowOf = ({ conversion_id, at, months, order_id }: CustomerSale): Row =>
  order_id === null ? [conversion_id, at, months] : [conversion_id, at, months, order_id];
const saleOf = ([conversion_id, at, months, order]: Row): CustomerSale => ({
  ...{ conversion_id, at, months, order_id: order ?? null },
});

/** What is empty is left out: most customers have bought once. */
export const plainCustomer = (kept: Customer | CustomerMonth): object => {
  const { contract_segment, sales, ...rest } = kept;
  return {
    ...rest,
    ...(contract_segment === null ? {} : { contract_segment }),
    ...(sales.length === 0 ? {} : { sales: sales.map(rowOf) }),
    ...(kept.is === "customer" && kept.months.length === 0 ? { months: undefined } : {}),
  };
};

interface StoredSales {
  readonly contract_segment?: string;
  readonly sales?: readonly Row[];
}
const ofCustomer = ({ contract_segment, sales = [] }: StoredSales): OfCustomer => ({
  contract_segment: contract_segment ?? null,
  sales: sales.map(saleOf),
});
export const customerOf = (kept: any): Customer => ({ ...kept, ...ofCustomer(kept), months: kept.months ?? [] });
export const customerMonthOf = (kept: any): CustomerMonth => ({ is: "customer_month", ...ofCustomer(kept) });

/** Where the line lies in the list of a conversion: behind what only sales of tiers have. */
const LINE_AT = 17;
/** The list of a conversion with its line. What lies between is written as null. */
export const withLine = (list: unknown[], { version, at, event_type, segment, campaign_id, currency }: SoldLine) => {
  list.length = LINE_AT;
  return [...list, [version, at, event_type, segment, campaign_id, currency]];
};
export const lineOf = ([version, at, event_type, segment, campaign_id, currency]: readonly any[]): SoldLine => ({
  ...{ version, at, event_type, segment, campaign_id, currency },
});
