package auditlog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Wrapping is how a log wraps events. The zero value is WrappingAny.
type Wrapping string

// WrappingAny takes every event in any wrapping. Each of the others looks into the wrapper
// fields of one source of logs, and into plain events.
const (
	WrappingAny        Wrapping = "any"
	WrappingEvents     Wrapping = "events"
	WrappingCloudWatch Wrapping = "cloudwatch"
	WrappingAzure      Wrapping = "azure"
	WrappingGoogle     Wrapping = "google"
	WrappingContainer  Wrapping = "container"
	WrappingShipper    Wrapping = "shipper"
)

// Wrappings returns the wrappings that a user may choose.
func Wrappings() []string {
	var all []string
	for _, w := range []Wrapping{WrappingAny, WrappingEvents, WrappingCloudWatch, WrappingAzure, WrappingGoogle, WrappingContainer, WrappingShipper} {
		all = append(all, string(w))
	}
	return all
}

// CheckWrapping returns an error for an unknown wrapping.
func CheckWrapping(w Wrapping) error {
	if w == "" || slices.Contains(Wrappings(), string(w)) {
		return nil
	}
	return fmt.Errorf("--log-form=%s: choose one of %s", w, strings.Join(Wrappings(), ", "))
}

// wrapperField is a field of a JSON object that has events in it.
type wrapperField struct {
	key string
	// list says that the field is a list of records. Else it is one record, as an object or as
	// text.
	list      bool
	wrappings []Wrapping
}

const (
	// textBefore stands for text before JSON on a line.
	textBefore = "TEXT"
	// googlePayload is the field whose value is an event in a schema of Google's own.
	googlePayload = "protoPayload"
	// piecesKey is the field whose texts are pieces of lines in Docker's logs.
	piecesKey = "log"
)

// wrapperFields are the known fields with events. They come from audit.k8s.io's EventList,
// CloudWatch's exports, filters and subscriptions, Azure's diagnostic settings, and Google's
// Cloud Logging. Others come from logs of containers (CRI, Docker), and from Fluent Bit,
// Filebeat, Elasticsearch and Splunk.
var wrapperFields = []wrapperField{
	{"items", true, []Wrapping{WrappingEvents}},
	{"logEvents", true, []Wrapping{WrappingCloudWatch}},
	{"events", true, []Wrapping{WrappingCloudWatch}},
	{"records", true, []Wrapping{WrappingAzure}},
	{"message", false, []Wrapping{WrappingCloudWatch, WrappingShipper}},
	{"properties", false, []Wrapping{WrappingAzure}},
	{piecesKey, false, []Wrapping{WrappingAzure, WrappingContainer, WrappingShipper}},
	{googlePayload, false, []Wrapping{WrappingGoogle}},
	{"jsonPayload", false, []Wrapping{WrappingGoogle}},
	{"_source", false, []Wrapping{WrappingShipper}},
	{"_raw", false, []Wrapping{WrappingShipper}},
	{"kubernetes", false, []Wrapping{WrappingShipper}},
	{"audit", false, []Wrapping{WrappingShipper}},
	{textBefore, false, []Wrapping{WrappingCloudWatch, WrappingContainer}},
}

// wrappers returns the names of the fields that may have events. The value is true for a list.
func (w Wrapping) wrappers() map[string]bool {
	wrappers := map[string]bool{}
	for _, f := range wrapperFields {
		if w == "" || w == WrappingAny || slices.Contains(f.wrappings, w) || slices.Contains(f.wrappings, WrappingEvents) {
			wrappers[f.key] = f.list
		}
	}
	return wrappers
}

// AddWrappingFlag adds the flag --log-form, with which a user names the wrapping.
func AddWrappingFlag(set *pflag.FlagSet, w *Wrapping) {
	set.StringVar((*string)(w), "log-form", string(WrappingAny),
		"how the log wraps events, if looking finds too much or too little: one of "+strings.Join(Wrappings(), ", "))
}
