// The payment providers whose notices are accepted.
import { adyen } from "./adyen.ts";
import { mercadopago } from "./mercadopago.ts";
import type { PaymentProvider } from "./provider.ts";
import { stripe } from "./stripe.ts";

const all: readonly PaymentProvider[] = [stripe, mercadopago, adyen];
const byName: ReadonlyMap<string, PaymentProvider> = new Map(all.map((one) => [one.name, one]));

export const providerNames: readonly string[] = all.map(({ name }) => name);
/** Undefined if no provider has this name. */
export const providerOf = (name: string): PaymentProvider | undefined => byName.get(name);
