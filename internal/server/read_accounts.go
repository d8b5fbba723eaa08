package server

import (
	"fmt"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/millrace/millrace/internal/usage"
)

// newReadAccounts makes the accounts of GETs and LISTs, and registers their metrics.
// The caller must call Run.
func (s *Server) newReadAccounts() (*usage.Accounts, error) {
	accounts := usage.NewAccounts(usage.Config{Pace: s.options.PaceRelists, ProcessCPU: processCPU(), Logger: s.logger})
	if err := legacyregistry.CustomRegister(accounts.Collector()); err != nil {
		return nil, fmt.Errorf("register metrics of lists: %w", err)
	}
	return accounts, nil
}
