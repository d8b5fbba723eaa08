package auditlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"
)

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

func indented(text string) string {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", "    "); err != nil {
		panic(err)
	}
	return b.String()
}

// each formats each event with a format of one verb, and joins the results.
func each(format, between string, events []string, change func(string) string) string {
	var all []string
	for _, e := range events {
		all = append(all, fmt.Sprintf(format, change(e)))
	}
	return strings.Join(all, between)
}

func as(text string) string { return text }

// pieces cuts an event in pieces of a line of a container's log.
func pieces(e string, size int, format func(piece string, last bool) string) string {
	var b strings.Builder
	for len(e) > size {
		b.WriteString(format(e[:size], false))
		e = e[size:]
	}
	b.WriteString(format(e, true))
	return b.String()
}

// logFormat is a way in which logs come, and where its events are found.
type logFormat struct {
	name    string
	wrapper Wrapper
	where   string
	write   func(events []string) string
}

// logFormats are made by hand after the references of Kubernetes, of the clouds and of the
// programs that ship logs.
var logFormats = []logFormat{
	{"lines", WrapperEvents, "", func(e []string) string { return strings.Join(e, "\n") + "\n" }},
	{"CRLF and empty lines", WrapperEvents, "", func(e []string) string { return strings.Join(e, "\r\n\r\n") }},
	{"beside each other", WrapperEvents, "", func(e []string) string { return strings.Join(e, "") }},
	{"list in a line", WrapperEvents, "items[]", func(e []string) string {
		return `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[` + strings.Join(e, ",") + `]}`
	}},
	{"batches beside each other", WrapperEvents, "items[]", func(e []string) string {
		return each(`{"kind":"EventList","items":[%s],"metadata":{"resourceVersion":""}}`, "", e, as)
	}},
	{"array", WrapperEvents, "", func(e []string) string { return "[" + strings.Join(e, ",") + "]" }},
	{"array, a line each", WrapperEvents, "", func(e []string) string { return "[\n" + strings.Join(e, ",\n") + "\n]\n" }},
	{"array of arrays", WrapperEvents, "", func(e []string) string { return each("[[%s]]", "\n", e, as) }},
	{"indented", WrapperEvents, "", func(e []string) string { return each("%s", "\n", e, indented) }},
	{"indented list", WrapperEvents, "items[]", func(e []string) string {
		return indented(`{"apiVersion":"audit.k8s.io/v1","items":[` + strings.Join(e, ",") + `],"kind":"EventList"}`)
	}},
	{"indented array", WrapperEvents, "", func(e []string) string { return indented("[" + strings.Join(e, ",") + "]") }},
	{"byte order mark", WrapperEvents, "", func(e []string) string { return "\ufeff" + strings.Join(e, "\n") }},
	{"UTF-16", WrapperEvents, "", func(e []string) string {
		var b []byte
		for _, unit := range utf16.Encode([]rune("\ufeff" + strings.Join(e, "\n"))) {
			b = append(b, byte(unit), byte(unit>>8))
		}
		return string(b)
	}},
	{"CloudWatch, filter-log-events", WrapperCloudWatch, "events[].message", func(e []string) string {
		return indented(`{"events":[` + each(`{"logStreamName":"kube-apiserver-audit-1","timestamp":1767225600000,"message":%s,"ingestionTime":1767225600001,"eventId":"1"}`, ",", e, quoted) + `],"searchedLogStreams":[]}`)
	}},
	{"CloudWatch, subscription", WrapperCloudWatch, "logEvents[].message", func(e []string) string {
		return `{"messageType":"DATA_MESSAGE","owner":"1","logGroup":"/aws/eks/c/cluster","logStream":"kube-apiserver-audit-1","subscriptionFilters":["f"],"logEvents":[` + each(`{"id":"1","timestamp":1767225600000,"message":%s}`, ",", e, quoted) + `]}`
	}},
	{"CloudWatch, export to S3", WrapperCloudWatch, "TEXT", func(e []string) string { return each("2026-01-01T00:00:00.000Z %s", "\n", e, as) }},
	{"CloudWatch, tail", WrapperCloudWatch, "TEXT", func(e []string) string {
		return each("2026-01-01T00:00:00+00:00 kube-apiserver-audit-1 %s", "\n", e, as)
	}},
	{"Azure, lines, text", WrapperAzure, "properties.log", func(e []string) string {
		return each(`{"time":"2026-01-01T00:00:00Z","resourceId":"/X","category":"kube-audit","operationName":"Microsoft.ContainerService/managedClusters/diagnosticLogs/Read","properties":{"log":%s,"stream":"stdout","pod":"kube-apiserver-1"}}`, "\n", e, quoted)
	}},
	{"Azure, Event Hubs", WrapperAzure, "records[].properties.log", func(e []string) string {
		return `{"records":[` + each(`{"category":"kube-audit-admin","properties":{"log":%s,"pod":"x"},"time":"2026-01-01T00:00:00Z"}`, ",", e, func(s string) string { return quoted(s + "\n") }) + `]}`
	}},
	{"Azure, objects", WrapperAzure, "records[].properties.log", func(e []string) string {
		return `{"records":[` + each(`{"category":"kube-audit","properties":{"log":%s}}`, ",", e, as) + `]}`
	}},
	{"CRI", WrapperContainer, "TEXT", func(e []string) string {
		return each("2026-01-01T00:00:00.123456789Z stdout F %s\n", "", e, as)
	}},
	{"CRI in pieces", WrapperContainer, "TEXT", func(e []string) string {
		return each("%s", "", e, func(s string) string {
			return pieces(s, 300, func(piece string, last bool) string {
				tag := map[bool]string{true: "F", false: "P"}[last]
				return "2026-01-01T00:00:00.123456789Z stdout " + tag + " " + piece + "\n"
			})
		})
	}},
	{"Docker", WrapperContainer, "log", func(e []string) string {
		return each(`{"log":%s,"stream":"stdout","time":"2026-01-01T00:00:00.1Z"}`, "\n", e, func(s string) string { return quoted(s + "\n") })
	}},
	{"Docker in pieces", WrapperContainer, "log", func(e []string) string {
		return each("%s", "", e, func(s string) string {
			s = strings.Replace(s, `"annotations"`, `"requestObject":{"x":"`+strings.Repeat("}", 2*dockerPiece)+`"},"annotations"`, 1)
			return pieces(s, dockerPiece, func(piece string, last bool) string {
				if last {
					piece += "\n"
				}
				return `{"log":` + quoted(piece) + `,"stream":"stdout","time":"2026-01-01T00:00:00.1Z"}` + "\n"
			})
		})
	}},
	{"Fluent Bit, text", WrapperShipper, "log", func(e []string) string {
		return each(`{"date":1767225600.1,"log":%s,"kubernetes":{"pod_name":"kube-apiserver-1","labels":{"a":"b"}}}`, "\n", e, quoted)
	}},
	{"Fluent Bit, merged", WrapperShipper, "", func(e []string) string {
		return each(`{"date":1767225600.1,%s`, "\n", e, func(s string) string { return s[1:] })
	}},
	{"Filebeat", WrapperShipper, "message", func(e []string) string {
		return each(`{"@timestamp":"2026-01-01T00:00:00.000Z","log":{"offset":1,"file":{"path":"/var/log/audit.log"}},"message":%s}`, "\n", e, quoted)
	}},
	{"Elasticsearch", WrapperShipper, "_source.message", func(e []string) string {
		return each(`{"_index":"x","_id":"1","_source":{"@timestamp":"2026-01-01T00:00:00.000Z","message":%s}}`, "\n", e, quoted)
	}},
	{"Elastic agent", WrapperShipper, "kubernetes.audit", func(e []string) string {
		return each(`{"@timestamp":"2026-01-01T00:00:00.000Z","kubernetes":{"audit":%s}}`, "\n", e, as)
	}},
	{"Google, of a cluster of one's own", WrapperGoogle, "jsonPayload", func(e []string) string {
		return "[" + each(`{"insertId":"1","jsonPayload":%s,"logName":"projects/p/logs/audit","timestamp":"2026-01-01T00:00:00Z"}`, ",", e, as) + "]"
	}},
}

// TestWrappers reads the same events in all wrappers, recognized and named.
func TestWrappers(t *testing.T) {
	var events []string
	want := ""
	for i := range 7 {
		events = append(events, event(fmt.Sprintf("id-%d", i)))
		want += fmt.Sprintf(" id-%d", i)
	}
	plain, _ := readEvents(t, strings.Join(events, "\n"), Options{KeepGroups: true})
	for _, f := range logFormats {
		for _, named := range []Wrapper{"", f.wrapper} {
			got, counts := readEvents(t, f.write(events), Options{Wrapper: named, KeepGroups: true})
			if " "+ids(got) != want || len(counts.Rest) > 0 || counts.Events != 7 || f.where != "" && counts.Wrapped[f.where] != 7 || f.where == "" && counts.Wrapped != nil {
				t.Errorf("%s as %q: got %s, %+v", f.name, named, ids(got), counts)
				continue
			}
			for i := range got {
				if got[i].summary() != plain[i].summary() {
					t.Errorf("%s: got %s, want %s", f.name, got[i].summary(), plain[i].summary())
				}
			}
		}
		if f.where == "" || f.where == "items[]" {
			continue
		}
		if got, counts := readEvents(t, f.write(events), Options{Wrapper: WrapperEvents}); len(got) > 0 || len(counts.Rest) == 0 {
			t.Errorf("%s as plain events: got %d, %+v", f.name, len(got), counts)
		}
	}
}

func TestGoogle(t *testing.T) {
	const entry = `{"insertId":"x","logName":"projects/p/logs/cloudaudit.googleapis.com%%2Fdata_access","operation":{"first":true,"id":"id-1","last":%v,"producer":"k8s.io"},
 "protoPayload":{"@type":"type.googleapis.com/google.cloud.audit.AuditLog","authenticationInfo":{"principalEmail":"system:serviceaccount:mon:agent"},"authorizationInfo":[{"granted":true,"permission":"%s","resource":"x"}],
 "methodName":"%s","requestMetadata":{"callerIp":"10.0.0.9","callerSuppliedUserAgent":"agent/v1"},"resourceName":"%s","serviceName":"k8s.io","status":{"code":%d}},"timestamp":"2026-11-26T10:00:00.123456Z"}`
	for _, c := range []struct {
		method, resource string
		code             int
		last             bool
		want             string
	}{
		{"io.k8s.core.v1.pods.list", "core/v1/namespaces/default/pods", 0, true, "ResponseComplete list /api/v1/namespaces/default/pods 200"},
		{"io.k8s.apps.v1.deployments.patch", "apps/v1/namespaces/a/deployments/d", 7, true, "ResponseComplete patch /apis/apps/v1/namespaces/a/deployments/d 403"},
		{"io.k8s.core.v1.nodes.watch", "core/v1/nodes", 0, false, "ResponseStarted watch /api/v1/nodes 200"},
		{"io.cert-manager.v1.certificates.get", "cert-manager.io/v1/namespaces/a/certificates/c", 5, true, "ResponseComplete get /apis/cert-manager.io/v1/namespaces/a/certificates/c 404"},
	} {
		text := fmt.Sprintf(entry, c.last, c.method, c.method, c.resource, c.code)
		var got string
		r := newReader(strings.NewReader("["+text+","+strings.ReplaceAll(text, "k8s.io\"", "storage.googleapis.com\"")+"]"), Options{}, func(e *Event) {
			got = fmt.Sprintf("%s %s %s %d", e.Stage, e.Verb, e.URI, e.Code)
			if string(e.User) != "system:serviceaccount:mon:agent" || string(e.UserAgent) != "agent/v1" || string(e.Address) != "10.0.0.9" || e.Received != micros("2026-11-26T10:00:00.123456Z") {
				t.Errorf("got %+v", e)
			}
		})
		if r.readAll(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
		if notes := strings.Join(Notes([]Input{{Name: "x"}}, []Counts{r.counts}), " "); !strings.Contains(notes, "neither the parameters") {
			t.Errorf("got %s", notes)
		}
	}
}

// TestRest has texts of which not all are events.
func TestRest(t *testing.T) {
	a, b := event("a"), event("b")
	noTime := strings.NewReplacer(`"requestReceivedTimestamp"`, `"x"`, `"stageTimestamp"`, `"y"`).Replace(a)
	for _, c := range []struct{ text, ids, rest string }{
		{a + "\n\n{\"protoPayload\":{\"serviceName\":\"storage\"}}\n{\"category\":\"kube-audit\",\"properties\":{\"log\":\"{}\"}}\n", "a", "JSON of another kind 2 at 3"},
		{"I1126 10:00:00.0 1 a.go:1] \"x\" y={z}\n" + a, "a", "text 1 at 1"},
		{"[INFO] hello\n" + a, "a", "text 1 at 1"},
		{a[:len(a)/2] + "\n" + b, "b", "lost cut off or no JSON 1 at 1"},
		{a[:len(a)/2] + b + "\n", "b", "lost cut off or no JSON 1 at 1"},
		{a + "\n" + b[:len(b)-1], "a", "lost cut off or no JSON 1 at 2"},
		{a + b[len(b)/2:] + "\n" + b, "a b", "lost parts of events 1 at 1"},
		{`0Z","stage":"x"}` + "\n" + b, "b", "lost parts of events 1 at 1"},
		{a + "x", "a", "text 1 at 1"},
		{noTime + "\n" + b + "\n" + noTime, "b", "lost events without a time 2 at 1"},
		{`{"kind":"EventList","items":[` + a + "," + b, "a b", "lost list that does not end 1 at 1"},
		{`{"kind":"EventList","items":[` + a + "," + b[:100] + "\n" + b, "a b", "lost cut off or no JSON 1 at 1"},
		{`{"kind":"EventList","items":[` + a + "," + b[:100] + a + "]}\n" + b, "a a b", "lost cut off or no JSON 1 at 1"},
		{indented(a)[:500] + "\n" + b, "b", "lost cut off or no JSON 1 at 1"},
		{`{"message":` + quoted(a[:200]) + "}\n" + b, "b", "lost wrapped events that are cut off or no JSON 1 at 1"},
		{`{"events":[{"message":` + quoted(a) + `},{"message":"hello"}]}`, "a", "JSON of another kind 1 at 1"},
		{"2026-01-01T00:00:00Z stdout P " + a[:50] + "\n2026-01-01T00:00:00Z stdout F " + b + "\n", "b", "lost wrapped events that are cut off or no JSON 1 at 2"},
	} {
		events, counts := readEvents(t, c.text, Options{})
		r := Rest{}
		if len(counts.Rest) > 0 {
			r = counts.Rest[0]
		}
		got := fmt.Sprintf("%s %d at %d", r.Why, r.Records, r.FirstLine)
		if r.Lost {
			got = "lost " + got
		}
		if ids(events) != c.ids || !strings.HasPrefix(got, c.rest) {
			t.Errorf("%s\ngot %s and %+v\nwant %s and %s", c.text, ids(events), counts.Rest, c.ids, c.rest)
		}
	}
}

// TestDeepText has text that is nested without an end.
func TestDeepText(t *testing.T) {
	for _, part := range []string{"[", "{\"a\":\n", "{\"items\":[", "{\"a\":[", "x{", "{\"kind\":\"Event\"", "{\"message\":\"{"} {
		events, counts := readEvents(t, strings.Repeat(part, 5000)+"\n"+event("a"), Options{})
		if ids(events) != "a" || counts.Rest == nil {
			t.Errorf("%s: got %s, %+v", part, ids(events), counts)
		}
	}
}

// TestOldEvents have their time in another field.
func TestOldEvents(t *testing.T) {
	old := `{"kind":"Event","apiVersion":"audit.k8s.io/v1beta1","metadata":{"creationTimestamp":"2017-09-11T19:55:05Z"},"level":"Metadata","timestamp":"2017-09-11T19:55:05Z","auditID":"a","stage":"ResponseComplete","requestURI":"/api/v1/pods","verb":"list"}`
	if events, counts := readEvents(t, old, Options{}); len(events) != 1 || events[0].Time() != micros("2017-09-11T19:55:05Z") {
		t.Errorf("got %+v, %+v", events, counts)
	}
}

// FuzzWrappers joins texts of all formats, and cuts the whole. The reader must find all events, or
// count lost records.
func FuzzWrappers(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed, uint16(seed*977))
	}
	f.Fuzz(func(t *testing.T, seed uint64, cut uint16) {
		random := rand.New(rand.NewPCG(seed, 1))
		var text strings.Builder
		var ends []int
		for i := range 1 + random.IntN(5) {
			format := logFormats[random.IntN(len(logFormats))]
			if format.name == "UTF-16" || format.name == "byte order mark" && i > 0 {
				format = logFormats[0]
			}
			text.WriteString(format.write([]string{event(fmt.Sprint("id-", i))}))
			text.WriteString([]string{"", "\n"}[random.IntN(2)])
			ends = append(ends, text.Len())
		}
		from, to := 0, text.Len()
		switch at := int(cut) % text.Len(); random.IntN(3) {
		case 1:
			from = at
		case 2:
			to = at
		}
		want, begin := 0, 0
		for _, end := range ends {
			// An event is there if a field of it is. Brackets may be of anything.
			if max(from, begin) < min(to, end) && isPart([]byte(text.String()[max(from, begin):min(to, end)]), false) {
				want++
			}
			begin = end
		}
		events, counts := readEvents(t, text.String()[from:to], Options{})
		if len(events) > len(ends) || len(events) < want && counts.LostRecords() == 0 {
			t.Errorf("%d of %d events in\n%s\n%+v", len(events), want, text.String()[from:to], counts)
		}
	})
}
