// Chinese for the descriptions of keys and of arguments of plug-ins: a key that has the description, and the checksum of its English. Many keys share a description.
// A changed description has another checksum: the test of Chinese in chinese_test.go names it, and prints the line to write.

/** @type {Record<string, string>} */
export const docs = {
};
