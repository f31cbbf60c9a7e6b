// Package e2e contains the tests of the whole product: bin/aloft as a process,
// with real machines, real git servers, real input and failures of all kinds.
// Each test starts its own server, so most tests run in parallel.
package e2e
