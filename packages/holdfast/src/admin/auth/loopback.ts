/** Whether only this machine can reach what listens there. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** The name in a header `Host`, without port and brackets. */
export function nameIn(host: string): string {
  const [, address, name] = /^(?:\[(.+)\]|([^:]+))(?::\d+)?$/.exec(host) ?? [];
  return (address ?? name ?? "").toLowerCase();
}

/** Whether whoever is at the other end of a connection is on this machine. */
export function isFromHere(address: string): boolean {
  // A server that listens for IPv6 too has the addresses of IPv4 in this form.
  return isLoopback(address.replace(/^::ffff:/i, ""));
}
