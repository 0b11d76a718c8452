// The strings of the page, one table a language. t("key", {n: 3}) gives the string with its parameters; a pair of strings is singular and plural, chosen by n.
// A line holds one key, and both tables have the same keys in the same order: a test compares them. Each page has its section.
// Names of metrics, keys of the configuration and what comes from files are shown as they are.

/** @type {Record<string, string | [string, string]>} */
const en = {
  // shell
  "app.title": "Trinity studio",
  "app.menu": "Menu",
  "app.pages": "Pages",
  "app.skip": "Skip to the content",
  "app.theme": "Light or dark",
  "app.theme.auto": "as the system",
  "app.theme.light": "light",
  "app.theme.dark": "dark",
  "app.language": "中文",
  "app.language.title": "切换为中文",
  "app.keys": "Keys",
  "app.keys.help": "show or hide this",
  "app.keys.search": "search",
  "app.keys.table": "move in a table; Space selects a row, Enter opens it",
  "app.keys.page": "page {page}",
  "app.close": "Close",
  "app.updated": "The program was updated to {version}.",
  "app.reload": "Reload",
  "app.offline": "No answer from the studio: {error}",
  "app.token": "This studio needs its token. Open the address that it printed, or enter the token:",
  "app.token.enter": "Enter",
  "app.broken": "This page failed: {error}",
  "app.missing": "There is no page “{page}”.",
  "app.loading": "Loading …",
  "app.none": "Nothing to show.",
  "app.damaged": "Left out, because it cannot be read:",
  "app.more": "Show {n} more characters",
  "app.less": "Show less",
  "app.retry": "Try again",
  "page.runs": "Runs",
  "page.curves": "Curves",
  "page.compare": "Compare",
  "page.rollouts": "Rollouts",
  "page.group": "Group",
  "page.tokens": "Tokens",
  "page.time": "Time",
  "step.n": "step {step}",
  "choose.run": "Choose a run",
  // states of a run
  "state.running": "running",
  "state.waiting": "waiting",
  "state.waiting.for": "waiting for {who}",
  "state.finished": "finished",
  "state.stopped": "stopped",
  "state.failed": "failed",
  "state.killed": "killed",
  "state.unknown": "unknown",
  // time
  "ago.now": "just now",
  "ago.minutes": "{n} min ago",
  "ago.hours": "{n} h ago",
  "ago.days": ["{n} day ago", "{n} days ago"],
  // runs
  "runs.filter": "Filter: name, algorithm, state, tag …",
  "runs.shown": ["{shown} of {n} run", "{shown} of {n} runs"],
  "runs.selected": "{n} selected",
  "runs.clear": "Clear",
  "runs.compare": "Two to {most} runs",
  "runs.none": "There is no run below {dir} yet. Start one with: trinity run --config examples/quickstart/quickstart.yaml",
  "runs.state": "State",
  "runs.name": "Run",
  "runs.tags": "Tags",
  "runs.note": "Note",
  "runs.remark": "Tags and note",
  "runs.kept": "Tags and notes stay in this browser.",
  "runs.keep": "Keep",
  "runs.algorithm": "Algorithm",
  "runs.model": "Model",
  "runs.step": "Step",
  "runs.reward": "Reward",
  "runs.left": "Left",
  "runs.began": "Began",
  // curves
  "curves.metrics": "Metrics",
  "curves.choose": "choose",
  "curves.search": "Search metrics",
  "curves.narrow": ["{n} more metric: search for it", "{n} more metrics: narrow the search"],
  "curves.remove": "Remove",
  "curves.nothing": "None of these runs has this metric.",
  "curves.x": "Over",
  "curves.x.step": "steps",
  "curves.x.time": "time",
  "curves.x.tokens": "tokens",
  "curves.smooth": "Smooth",
  "curves.log": "logarithmic",
  "curves.band": "group seeds",
  "curves.band.title": "Runs that differ in their seeds alone: their mean, and between the least and the greatest value",
  "curves.whole": "Whole history",
  // compare
  "compare.choose": "Choose two to {most} runs:",
  "compare.others": "Other runs",
  "compare.settings": "Settings that differ",
  "compare.same": "The settings of these runs are the same.",
  "compare.key": "Key",
  "compare.metrics": "Newest values",
  "compare.seeds.title": "Runs that differ in their seeds alone: their mean ± half of its 95 % confidence interval",
  "compare.paired": ["Difference from the first column, by pairs of runs with the same seed: {n} pair", "Difference from the first column, by pairs of runs with the same seed: {n} pairs"],
  "compare.first": "Difference from the first column",
  // rollouts
  // group
  // tokens
  // time (page)
};

/** @type {Record<string, string | [string, string]>} */
const zh = {
  // shell
  "app.title": "Trinity 工作室",
  "app.menu": "菜单",
  "app.pages": "页面",
  "app.skip": "跳到内容",
  "app.theme": "浅色或深色",
  "app.theme.auto": "跟随系统",
  "app.theme.light": "浅色",
  "app.theme.dark": "深色",
  "app.language": "English",
  "app.language.title": "Switch to English",
  "app.keys": "按键",
  "app.keys.help": "显示或隐藏此帮助",
  "app.keys.search": "搜索",
  "app.keys.table": "在表格中移动；空格选择一行，回车打开",
  "app.keys.page": "{page}页面",
  "app.close": "关闭",
  "app.updated": "程序已更新到 {version}。",
  "app.reload": "重新加载",
  "app.offline": "工作室没有响应：{error}",
  "app.token": "此工作室需要令牌。请打开它打印的地址，或输入令牌：",
  "app.token.enter": "进入",
  "app.broken": "此页面出错：{error}",
  "app.missing": "没有页面“{page}”。",
  "app.loading": "加载中 …",
  "app.none": "没有可显示的内容。",
  "app.damaged": "以下内容无法读取，已略去：",
  "app.more": "再显示 {n} 个字符",
  "app.less": "收起",
  "app.retry": "重试",
  "page.runs": "运行",
  "page.curves": "曲线",
  "page.compare": "对比",
  "page.rollouts": "轨迹",
  "page.group": "组",
  "page.tokens": "词元",
  "page.time": "时间",
  "step.n": "第 {step} 步",
  "choose.run": "选择一个运行",
  // states of a run
  "state.running": "运行中",
  "state.waiting": "等待中",
  "state.waiting.for": "等待 {who}",
  "state.finished": "已完成",
  "state.stopped": "已停止",
  "state.failed": "失败",
  "state.killed": "被终止",
  "state.unknown": "未知",
  // time
  "ago.now": "刚刚",
  "ago.minutes": "{n} 分钟前",
  "ago.hours": "{n} 小时前",
  "ago.days": "{n} 天前",
  // runs
  "runs.filter": "筛选：名称、算法、状态、标签 …",
  "runs.shown": "显示 {shown} / {n} 个运行",
  "runs.selected": "已选 {n} 个",
  "runs.clear": "清除",
  "runs.compare": "二至 {most} 个运行",
  "runs.none": "{dir} 下还没有运行。用以下命令开始：trinity run --config examples/quickstart/quickstart.yaml",
  "runs.state": "状态",
  "runs.name": "运行",
  "runs.tags": "标签",
  "runs.note": "备注",
  "runs.remark": "标签和备注",
  "runs.kept": "标签和备注只保存在此浏览器中。",
  "runs.keep": "保存",
  "runs.algorithm": "算法",
  "runs.model": "模型",
  "runs.step": "步",
  "runs.reward": "奖励",
  "runs.left": "剩余",
  "runs.began": "开始",
  // curves
  "curves.metrics": "指标",
  "curves.choose": "选择",
  "curves.search": "搜索指标",
  "curves.narrow": "还有 {n} 个指标：请缩小搜索范围",
  "curves.remove": "移除",
  "curves.nothing": "这些运行都没有此指标。",
  "curves.x": "横轴",
  "curves.x.step": "步数",
  "curves.x.time": "时间",
  "curves.x.tokens": "词元数",
  "curves.smooth": "平滑",
  "curves.log": "对数",
  "curves.band": "合并种子",
  "curves.band.title": "仅种子不同的运行：显示其均值以及最小值与最大值之间的范围",
  "curves.whole": "全部历史",
  // compare
  "compare.choose": "选择二至 {most} 个运行：",
  "compare.others": "其他运行",
  "compare.settings": "不同的设置",
  "compare.same": "这些运行的设置相同。",
  "compare.key": "键",
  "compare.metrics": "最新值",
  "compare.seeds.title": "仅种子不同的运行：均值 ± 95% 置信区间的一半",
  "compare.paired": "与第一列的差，按相同种子的运行配对：{n} 对",
  "compare.first": "与第一列的差",
  // rollouts
  // group
  // tokens
  // time (page)
};

const tables = { en, zh };

/** @typedef {keyof typeof tables} Language */

/** @type {Language} */
let language = /** @type {Language} */ (localStorage.getItem("language")) || (navigator.language.startsWith("zh") ? "zh" : "en");
if (!(language in tables)) language = "en";
document.documentElement.lang = language;

/** The language that is shown. */
export const spoken = () => language;

/**
 * speak changes the language; the shell draws all anew.
 * @param {Language} to
 */
export function speak(to) {
  language = to;
  document.documentElement.lang = to;
  localStorage.setItem("language", to);
}

/**
 * t returns the string of a key in the language that is shown.
 * @param {string} key
 * @param {Record<string, string | number>} [parameters]
 * @returns {string}
 */
export function t(key, parameters = {}) {
  const found = tables[language][key] ?? en[key] ?? key;
  const text = typeof found === "string" ? found : found[parameters.n === 1 ? 0 : 1];
  return text.replace(/\{(\w+)\}/g, (whole, name) => name in parameters ? String(parameters[name]) : whole);
}
