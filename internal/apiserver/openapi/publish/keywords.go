package publish

// keyword is a keyword of a schema that can be published from its stored text. The
// constants are in the order in which keywords are written. Documents promise no order.
type keyword uint8

const (
	keywordDescription keyword = iota
	keywordType
	keywordFormat
	keywordTitle
	keywordDefault
	keywordMaximum
	keywordExclusiveMaximum
	keywordMinimum
	keywordExclusiveMinimum
	keywordMaxLength
	keywordMinLength
	keywordPattern
	keywordMaxItems
	keywordMinItems
	keywordUniqueItems
	keywordMultipleOf
	keywordEnum
	keywordMaxProperties
	keywordMinProperties
	keywordNullable
	keywordExample
	keywordRequired
	keywordItems
	keywordProperties
	keywordAdditional
	keywordAllOf
	keywordOneOf
	keywordAnyOf
	keywordNot
	keywordEmbedded
	keywordIntOrString
	keywordMapKeys
	keywordListType
	keywordMapType
	keywordPreserve
	keywordRules
	keywordCount
)

// keywordNames are the names in definitions and in documents, which are the same.
var keywordNames = [keywordCount]string{
	keywordDescription: "description", keywordType: "type", keywordFormat: "format", keywordTitle: "title",
	keywordDefault: "default", keywordMaximum: "maximum", keywordExclusiveMaximum: "exclusiveMaximum",
	keywordMinimum: "minimum", keywordExclusiveMinimum: "exclusiveMinimum", keywordMaxLength: "maxLength",
	keywordMinLength: "minLength", keywordPattern: "pattern", keywordMaxItems: "maxItems", keywordMinItems: "minItems",
	keywordUniqueItems: "uniqueItems", keywordMultipleOf: "multipleOf", keywordEnum: "enum",
	keywordMaxProperties: "maxProperties", keywordMinProperties: "minProperties", keywordNullable: "nullable",
	keywordExample: "example", keywordRequired: "required", keywordItems: "items", keywordProperties: "properties",
	keywordAdditional: "additionalProperties", keywordAllOf: "allOf", keywordOneOf: "oneOf", keywordAnyOf: "anyOf",
	keywordNot: "not", keywordEmbedded: "x-kubernetes-embedded-resource", keywordIntOrString: "x-kubernetes-int-or-string",
	keywordMapKeys: "x-kubernetes-list-map-keys", keywordListType: "x-kubernetes-list-type",
	keywordMapType: "x-kubernetes-map-type", keywordPreserve: "x-kubernetes-preserve-unknown-fields",
	keywordRules: "x-kubernetes-validations",
}

var keywordByName = func() map[string]keyword {
	all := map[string]keyword{}
	for f, name := range keywordNames {
		all[name] = keyword(f)
	}
	return all
}()

// keywordSet is a set of keywords.
type keywordSet uint64

func keywords(all ...keyword) keywordSet {
	var s keywordSet
	for _, f := range all {
		s |= 1 << f
	}
	return s
}

func (s keywordSet) has(f keyword) bool { return s>>f&1 != 0 }
