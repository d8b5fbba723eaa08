package auditlog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Wrapper is a kind of log, by what it wraps events in. The zero value means WrapperAny.
type Wrapper string

// WrapperAny looks into all wrapperFields. Each other wrapper looks into the fields of one source
// of logs, and into plain events.
const (
	WrapperAny        Wrapper = "any"
	WrapperEvents     Wrapper = "events"
	WrapperCloudWatch Wrapper = "cloudwatch"
	WrapperAzure      Wrapper = "azure"
	WrapperGoogle     Wrapper = "google"
	WrapperContainer  Wrapper = "container"
	WrapperShipper    Wrapper = "shipper"
)

// Wrappers returns the wrappers that a user may choose.
func Wrappers() []string {
	var all []string
	for _, w := range []Wrapper{WrapperAny, WrapperEvents, WrapperCloudWatch, WrapperAzure, WrapperGoogle, WrapperContainer, WrapperShipper} {
		all = append(all, string(w))
	}
	return all
}

// CheckWrapper returns an error for an unknown wrapper.
func CheckWrapper(w Wrapper) error {
	if w == "" || slices.Contains(Wrappers(), string(w)) {
		return nil
	}
	return fmt.Errorf("--log-form=%s: choose one of %s", w, strings.Join(Wrappers(), ", "))
}

// wrapperField is a field of a JSON object that has events in it.
type wrapperField struct {
	key string
	// list says that the field is a list of records. Else it is one record, as an object or as
	// text.
	list     bool
	wrappers []Wrapper
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
	{"items", true, []Wrapper{WrapperEvents}},
	{"logEvents", true, []Wrapper{WrapperCloudWatch}},
	{"events", true, []Wrapper{WrapperCloudWatch}},
	{"records", true, []Wrapper{WrapperAzure}},
	{"message", false, []Wrapper{WrapperCloudWatch, WrapperShipper}},
	{"properties", false, []Wrapper{WrapperAzure}},
	{piecesKey, false, []Wrapper{WrapperAzure, WrapperContainer, WrapperShipper}},
	{googlePayload, false, []Wrapper{WrapperGoogle}},
	{"jsonPayload", false, []Wrapper{WrapperGoogle}},
	{"_source", false, []Wrapper{WrapperShipper}},
	{"_raw", false, []Wrapper{WrapperShipper}},
	{"kubernetes", false, []Wrapper{WrapperShipper}},
	{"audit", false, []Wrapper{WrapperShipper}},
	{textBefore, false, []Wrapper{WrapperCloudWatch, WrapperContainer}},
}

// fields returns the names of the fields that may have events. The value is true for a list.
func (w Wrapper) fields() map[string]bool {
	fields := map[string]bool{}
	for _, f := range wrapperFields {
		if w == "" || w == WrapperAny || slices.Contains(f.wrappers, w) || slices.Contains(f.wrappers, WrapperEvents) {
			fields[f.key] = f.list
		}
	}
	return fields
}

// AddWrapperFlag adds the flag --log-form, with which a user names the wrapper.
func AddWrapperFlag(set *pflag.FlagSet, w *Wrapper) {
	set.StringVar((*string)(w), "log-form", string(WrapperAny),
		"how the log wraps events, if looking finds too much or too little: one of "+strings.Join(Wrappers(), ", "))
}
