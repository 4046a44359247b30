// The accepted currencies with their decimal digits (ISO 4217, list one).

/**
 * Codes without minor units (gold, test codes, XXX "no currency") are left out, because an amount
 * in them has no meaning.
 */
const BY_DIGITS: Readonly<Record<number, string>> = {
  0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
  2:
    "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD " +
    "CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK " +
    "DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR " +
    "JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD " +
    "LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN " +
    "PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR " +
    "SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU " +
    "UZS VED VES WST XCD XCG YER ZAR ZMW ZWG",
  3: "BHD IQD JOD KWD LYD OMR TND",
  4: "CLF UYW",
};
const digits = new Map(
  Object.entries(BY_DIGITS).flatMap(([count, codes]) =>
    codes.split(" ").map((code): [string, number] => [code, Number(count)]),
  ),
);

/** Every code, grouped by its number of decimals. */
export const codesByDigits: ReadonlyMap<number, readonly string[]> = new Map(
  Object.entries(BY_DIGITS).map(([count, codes]) => [Number(count), codes.split(" ")]),
);

/**
 * The number of decimals of a currency. Undefined if it is not a currency. Codes are upper case.
 */
export const digitsOf = (currency: string): number | undefined => digits.get(currency);
