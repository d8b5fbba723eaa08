package crd

import (
	"time"
	"unicode/utf8"
)

// metadataRoundTrips reports whether decoded metadata is sure to come out of Kubernetes'
// ObjectMeta as it goes in (schemaobjectmeta.GetObjectMeta, SetObjectMeta). That is so if
// no field is unknown, malformed or empty.
//
// The metadata of nearly all stored objects does. False means that nothing is known.
// Callers do not convert metadata that round-trips. The conversion takes a fifth of the CPU
// of a write, each time that an object is decoded or converted.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta.GetObjectMetaWithOptions; compare at each upgrade.
func metadataRoundTrips(metadata any) bool { return metadataRules.allow(metadata) }

// fieldRules has a test for the value of each field that an object may have.
type fieldRules map[string]func(any) bool

// allow reports whether a value is an object whose fields pass their tests.
func (r fieldRules) allow(value any) bool {
	fields, ok := value.(map[string]any)
	if !ok || fields == nil {
		return false
	}
	for name, value := range fields {
		if holds := r[name]; holds == nil || !holds(value) {
			return false
		}
	}
	return true
}

var (
	metadataRules = fieldRules{
		"name": nonEmptyText, "generateName": nonEmptyText, "namespace": nonEmptyText, "selfLink": nonEmptyText, "uid": nonEmptyText, "resourceVersion": nonEmptyText,
		"generation":                 func(value any) bool { return integer(value) && value != int64(0) },
		"deletionGracePeriodSeconds": integer,
		"creationTimestamp":          canonicalTime, "deletionTimestamp": canonicalTime,
		"labels": textMap, "annotations": textMap,
		"finalizers":      func(value any) bool { return nonEmptyList(value, text) },
		"ownerReferences": func(value any) bool { return nonEmptyList(value, ownerReference) },
		"managedFields":   func(value any) bool { return nonEmptyList(value, managerRules.allow) },
	}
	ownerRules = fieldRules{
		"apiVersion": text, "kind": text, "name": text, "uid": text,
		"controller": boolean, "blockOwnerDeletion": boolean,
	}
	managerRules = fieldRules{
		"manager": nonEmptyText, "operation": nonEmptyText, "apiVersion": nonEmptyText, "fieldsType": nonEmptyText, "subresource": nonEmptyText,
		"time": canonicalTime, "fieldsV1": fieldTree,
	}
)

func integer(value any) bool { _, ok := value.(int64); return ok }
func boolean(value any) bool { _, ok := value.(bool); return ok }

// text reports whether a value is a string that JSON can hold.
func text(value any) bool {
	s, ok := value.(string)
	return ok && utf8.ValidString(s)
}

// nonEmptyText is text that is not left out for being empty.
func nonEmptyText(value any) bool { return text(value) && value != "" }

// canonicalTime reports whether a value is a time as metav1.Time writes it, other than
// the zero time.
func canonicalTime(value any) bool {
	const written, zero = "2006-01-02T15:04:05Z", "0001-01-01T00:00:00Z"
	s, ok := value.(string)
	if !ok || len(s) != len(written) || s[len(s)-1] != 'Z' || s == zero {
		return false
	}
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}

// textMap reports whether a value is an object of strings that is not empty.
func textMap(value any) bool {
	texts, ok := value.(map[string]any)
	if !ok || len(texts) == 0 {
		return false
	}
	for key, value := range texts {
		if !utf8.ValidString(key) || !text(value) {
			return false
		}
	}
	return true
}

// nonEmptyList reports whether a value is a list that is not empty, whose items pass a
// test.
func nonEmptyList(value any, holds func(any) bool) bool {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		return false
	}
	for _, v := range list {
		if !holds(v) {
			return false
		}
	}
	return true
}

// ownerReference reports whether a value is an owner with all fields that are written
// even when they are empty.
func ownerReference(value any) bool {
	if !ownerRules.allow(value) {
		return false
	}
	for _, name := range []string{"apiVersion", "kind", "name", "uid"} {
		if _, there := value.(map[string]any)[name]; !there {
			return false
		}
	}
	return true
}

// fieldTree reports whether a value is a set of fields: objects all the way down.
func fieldTree(value any) bool {
	fields, ok := value.(map[string]any)
	if !ok || fields == nil {
		return false
	}
	for name, inside := range fields {
		if !utf8.ValidString(name) || !fieldTree(inside) {
			return false
		}
	}
	return true
}
