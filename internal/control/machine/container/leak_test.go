package container

import (
	"os"
	"testing"
)

const childEnv = "ALOFT_TEST_CHILD"

func child() int { return 0 }

func checkLeaks(t *testing.T) { t.Helper(); _ = os.Getpid() }
