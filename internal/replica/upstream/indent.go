package upstream

import "strings"

// IndentedAgent begins a user agent for which Kubernetes indents JSON.
const IndentedAgent = "curl"

// IsIndented reports whether Kubernetes indents JSON for a user agent, because a person reads
// with it.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/negotiation.isPrettyPrint; compare at each upgrade.
func IsIndented(agent string) bool {
	return strings.HasPrefix(agent, IndentedAgent) || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}
