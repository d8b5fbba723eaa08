package accounts

import (
	"regexp"
	"strings"
)

// exactSizes are histograms whose values the load determines exactly.
var exactSizes = map[string]bool{
	"apiserver_flowcontrol_watch_count_samples": true,
}

// knownFamilies are families that one of the two servers does not have, with the reason.
var knownFamilies = map[string]string{
	"apiextensions_openapi_v2_regeneration_count": "documents are joined from fragments, nothing is regenerated",
	"apiextensions_openapi_v3_regeneration_count": "documents are joined from fragments, nothing is regenerated",
	"apiserver_storage_events_received_total":     "etcd is watched by one feed for all resources (millrace_feed_*)",
	"apiserver_storage_list_duration_seconds":     "no list reads etcd",
	"apiserver_storage_decode_errors_total":       "no list reads etcd",
	"etcd_bookmark_counts":                        "etcd is watched by one feed for all resources",
	"etcd_bookmark_total":                         "etcd is watched by one feed for all resources",
	"watch_cache_capacity":                        "the log is bounded by time and bytes, not by a number of events",
}

// lateFamilies are left out of a scrape by either server if etcd does not answer a client
// of the scrape's own within a second. A machine under load makes that happen.
var lateFamilies = map[string]bool{"apiserver_storage_size_bytes": true}

func knownFamily(name string) bool { return knownFamilies[name] != "" }

// knownSeries are series that differ, with the reason.
var knownSeries = []struct {
	series *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`^etcd_request|^apiserver_storage_list_.*storage="etcd"`), "reads are answered from the cache"},
	{regexp.MustCompile(`^apiserver_watch_cache_(consistent_read_total|read_wait_seconds)`), "GETs and watches are consistent reads from the cache too, which Kubernetes sends to etcd"},
	{regexp.MustCompile(`^apiserver_watch_cache_(events_dispatched_total|resource_version)`), "progress of etcd is no event, and one number for all resources"},
	{regexp.MustCompile(`^apiserver_(resource_objects|resource_size_estimate_bytes|storage_objects|storage_size_bytes)`), "the two look at what is stored at other times"},
	{regexp.MustCompile(`^apiserver_request_post_timeout_total\{source="rest-handler"`), "whether a write is done when its time is over is a matter of luck"},
	{regexp.MustCompile(`subresource="/readyz"`), "a server asks itself until it is ready"},
	{regexp.MustCompile(`subresource="openapi/v3"`), "the aggregation layer is asked for its part of the list, which counts too"},
	{regexp.MustCompile(`^apiserver_request_total\{code="50[04]".*verb="LIST"`), "a read whose time is over counts as 504, and as 500 in Kubernetes"},
}

var resourceLabel = regexp.MustCompile(`[{,](?:resource|resource_prefix)="([^"]+)"`)

// loadedResources are the resources that only the load requests.
var loadedResources = map[string]bool{"podtemplates": true, "replicationcontrollers": true, "widgets": true, "componentstatuses": true}

// loadOnlySeries match series without a resource that only the load changes.
var loadOnlySeries = regexp.MustCompile(`^apiserver_audit_event_total|^apiserver_audit_level_total\{level="(Metadata|Request|RequestResponse)"|` +
	`flow_schema="(global-default|catch-all)"|^apiserver_client_certificate_expiration|^apiserver_request_(terminations|aborts|post_timeout)_total|` +
	`^apiserver_(request_total|request_duration_seconds|request_sli_duration_seconds|response_sizes).*resource=""`)

// isDetermined reports whether the load alone determines a series.
func isDetermined(name, series string) bool {
	if !isKubernetesName(name) || knownFamily(name) {
		return false
	}
	for _, k := range knownSeries {
		if k.series.MatchString(series) {
			return false
		}
	}
	if r := resourceLabel.FindStringSubmatch(series); r != nil {
		plural, _, _ := strings.Cut(r[1], ".")
		return loadedResources[plural]
	}
	return loadOnlySeries.MatchString(series)
}
