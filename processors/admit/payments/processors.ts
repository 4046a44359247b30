// The payment processors whose notices are taken.
import { adyen } from "./adyen.ts";
import { mercadopago } from "./mercadopago.ts";
import type { PaymentProcessor } from "./processor.ts";
import { stripe } from "./stripe.ts";

const all: readonly PaymentProcessor[] = [stripe, mercadopago, adyen];
const byName: ReadonlyMap<string, PaymentProcessor> = new Map(all.map((one) => [one.name, one]));

export const processorNames: readonly string[] = all.map(({ name }) => name);
/** Undefined: there is none of this name. */
export const processorOf = (name: string): PaymentProcessor | undefined => byName.get(name);
