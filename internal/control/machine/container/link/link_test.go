package link

import (
	"testing"

	"aloft/internal/control/egress"
)

// TestLinkIsTheGateways checks that this package and package egress agree on
// the constants of the link.
func TestLinkIsTheGateways(t *testing.T) {
	if mtu != egress.MTU || GatewayV4 != egress.GatewayV4.String() || routerV4 != egress.GatewayV4.As4() ||
		machineV4 != egress.MachineV4.As4() || routerV6 != egress.GatewayV6.As16() || machineV6 != egress.MachineV6.As16() {
		t.Error("the two ends of the link differ")
	}
}
