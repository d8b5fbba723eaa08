package serve

import (
	"fmt"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/millrace/millrace/internal/account/usage"
)

// newReadAccounts makes the accounts of GETs and LISTs, and registers their metrics.
// budgets may be nil. The caller must call Run.
func (s *Server) newReadAccounts(budgets *usage.Budgets) (*usage.Accounts, error) {
	accounts := usage.NewAccounts(usage.Config{Pace: s.options.PaceRelists, ProcessCPU: processCPU(), Budgets: budgets, Logger: s.logger})
	if err := legacyregistry.CustomRegister(accounts.Collector()); err != nil {
		return nil, fmt.Errorf("register metrics of lists: %w", err)
	}
	return accounts, nil
}
