package server

import (
	"fmt"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/millrace/millrace/internal/usage"
)

// newLists makes the accounts of GETs and LISTs, and their metrics. Its Run is to
// be called.
func (s *Server) newLists() (*usage.Accounts, error) {
	lists := usage.NewAccounts(usage.Config{Pace: s.options.PaceRelists, ProcessCPU: processCPU(), Logger: s.logger})
	if err := legacyregistry.CustomRegister(lists.Collector()); err != nil {
		return nil, fmt.Errorf("register metrics of lists: %w", err)
	}
	return lists, nil
}
