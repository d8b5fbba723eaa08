package usage

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/report"
)

// servedFromBytes says, by the reason why requests were passed on, what would be
// answered from bytes.
var servedFromBytes = map[string]string{
	"resource":   "what other API servers serve, subresources, and custom resources that a webhook converts are not kept here as bytes; ask for the rest of it in a version that needs no conversion, or less often",
	"path":       "use the resource's own path, without empty parts and without a slash at its end",
	"parameter":  "its parameters are malformed, or mean nothing to a GET or LIST: send those of metav1.ListOptions alone",
	"selector":   "it selects by a field that only the resource's definition knows: select by a label, which is found by an index",
	"accept":     "ask for application/json or application/vnd.kubernetes.protobuf: YAML, CBOR and indented tables are made anew for each request",
	"audit":      "the audit policy logs bodies of answers: log reads of this resource at the level Metadata or Request",
	"odd-object": "an object of this resource cannot be read, or is altered on its way out: the log names those that are unreadable; repair or delete them",
	"history":    "it asks for a revision that the cache does not hold any more: take pages sooner, or raise --history-window",
	"encoding":   "an encoder did something unexpected: ask for another form, such as protobuf or JSON",
}

func (a *asked) passedOn() string {
	if a.Path != report.PathPassedOn {
		return ""
	}
	return fmt.Sprintf("Kubernetes' handler answers this (%s), which decodes and encodes each object anew: %s.", a.Reason, servedFromBytes[a.Reason])
}

// adviseStorm says what to do about a storm. pace is --pace-relists.
func adviseStorm(s *report.Storm, now time.Time, pace float64) string {
	end := s.Ended
	if end.IsZero() {
		end = now
	}
	advice := fmt.Sprintf("%d of about %d clients %s listed %s anew within %.0f s: restart them in smaller steps (maxUnavailable of a rolling update), let them wait a random time before they list and longer after each failure, and let them resume their watches instead of listing where they can.",
		s.Clients, s.Fleet, s.UserAgent, s.Resource, max(1, end.Sub(s.Began).Seconds()))
	if pace <= 0 {
		advice += " --pace-relists=10 would let a tenth of them list in a minute and tell the others when to come back."
	}
	return advice
}
