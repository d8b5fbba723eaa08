package verify

// Outcomes of requests in the scorecard. Other outcomes are statuses, and "no answer".
const (
	outcomeOK       = "200"
	outcomePages    = "200, pages"
	outcomeNotFound = "404"
	outcomeGone     = "410"
	outcomeTimeout  = "504"
)

// selectors and encodings are the columns of the scorecard.
var (
	selectors = []selector{selectAll, selectLabel, selectField}
	encodings = []encoding{encodingJSON, encodingMetadata, encodingTable}
)

// listKinds returns LISTs with all combinations of version, match and limit that servers accept.
func listKinds() []Request {
	kinds := []Request{
		{Class: versionUnset}, {Class: versionZero}, {Class: versionZero, Match: matchNotOlderThan},
		{Class: versionSeen}, {Class: versionSeen, Match: matchNotOlderThan}, {Class: versionSeen, Match: matchExact},
	}
	for _, kind := range kinds {
		kind.Limit = 1
		kinds = append(kinds, kind)
	}
	return append(kinds, Request{Class: versionFuture}, Request{Class: versionExpired, Match: matchExact})
}

// readRequests returns all LISTs of the scorecard. Its GETs are so few that random ones suffice.
func readRequests() (all []Request) {
	for _, kind := range listKinds() {
		kind.Verb = "list"
		all = append(all, variants(kind)...)
	}
	return all
}

// watchRequests returns all watches of the scorecard.
func watchRequests() (all []Request) {
	for _, class := range []versionClass{versionUnset, versionZero, versionSeen} {
		for _, bookmarks := range []bool{false, true} {
			all = append(all, variants(Request{Verb: "watch", Class: class, Bookmarks: bookmarks})...)
			all = append(all, variants(Request{Verb: "watch", Class: class, Bookmarks: bookmarks, Initial: true, Match: matchNotOlderThan})...)
		}
	}
	all = append(all, variants(Request{Verb: "watch", Class: versionAhead})...)
	return append(all, variants(Request{Verb: "watch", Class: versionExpired, Bookmarks: true})...)
}

// variants returns a request with each selector in each encoding.
func variants(req Request) (all []Request) {
	for _, req.Select = range selectors {
		for _, req.Encoding = range encodings {
			all = append(all, req)
		}
	}
	return all
}
