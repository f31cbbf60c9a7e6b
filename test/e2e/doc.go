// Package e2e contains the tests of the whole product: bin/aloft as a process,
// with real machines, real git servers and real input, and with all kinds of
// failures. Each test has a server of its own, so most tests run in parallel.
package e2e
