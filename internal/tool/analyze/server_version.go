package analyze

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/auditlog"
)

// assumedVersion is Options.ServerVersion if neither the user nor the log names one.
const assumedVersion = "1.37"

// Values of Run.VersionSource.
const (
	versionFromFlag = "flag"
	versionFromLog  = "log"
	versionAssumed  = "assumed"
)

// Minor versions that parseMinor accepts.
const (
	oldestMinor = 16
	newestMinor = 999
)

// parseMinor returns the minor version of Kubernetes in a text such as "v1.37.2", 0 if there is
// none.
func parseMinor(version string) int {
	major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	if n, err := strconv.Atoi(minor); major == "1" && err == nil && n >= oldestMinor && n <= newestMinor {
		return n
	}
	return 0
}

// serverClient is kube-apiserver as a client of itself. Its user agent has its version.
var serverClient = serverreport.Client{User: "system:apiserver", UserAgent: "kube-apiserver"}

// serverMinors counts the requests that kube-apiserver sends to itself, by its minor version.
type serverMinors map[int]uint64

// add counts a request, if kube-apiserver has sent it.
func (m serverMinors) add(e *auditlog.Event, client serverreport.Client) {
	if client != serverClient {
		return
	}
	_, version, _ := strings.Cut(string(e.UserAgent), "/")
	version, _, _ = strings.Cut(version, " ")
	if minor := parseMinor(version); minor > 0 {
		m[minor]++
	}
}

// mostFrequent returns the minor version with the most requests, the newest of several, and 0 if
// there is none.
func (m serverMinors) mostFrequent() int {
	minors := slices.SortedFunc(maps.Keys(m), func(a, b int) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(b, a)) })
	if len(minors) == 0 {
		return 0
	}
	return minors[0]
}

// setVersion sets ServerVersion, unless the user has. It returns a value of Run.VersionSource.
func (o *Options) setVersion(m serverMinors) string {
	if o.ServerVersion != "" {
		return versionFromFlag
	}
	if minor := m.mostFrequent(); minor > 0 {
		o.ServerVersion, o.minor = fmt.Sprintf("1.%d", minor), minor
		return versionFromLog
	}
	o.ServerVersion, o.minor = assumedVersion, parseMinor(assumedVersion)
	return versionAssumed
}

// versionNote returns a sentence on the version of the server, and where it comes from.
func (r *Run) versionNote() string {
	text := fmt.Sprintf("Costs are for Kubernetes %s", r.Options.ServerVersion)
	switch r.VersionSource {
	case versionFromLog:
		return text + ", as kube-apiserver calls itself in the log."
	case versionFromFlag:
		return text + " (--server-version)."
	}
	return text + ": the log does not name the server's version. If it is another version, give --server-version."
}
