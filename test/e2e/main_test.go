// Package e2e tests millrace as its users meet it: as processes.
package e2e

import (
	"testing"

	"github.com/millrace/millrace/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
