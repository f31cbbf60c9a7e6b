// Package e2e holds the tests of the whole product: bin/aloft as a process,
// real machines, real git servers, real input, and whatever may go wrong.
package e2e
