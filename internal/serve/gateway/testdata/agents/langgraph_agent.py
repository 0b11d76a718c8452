import common
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent

agent = create_react_agent(ChatOpenAI(model="gpt-5", streaming=common.STREAM), [common.add], prompt=common.SYSTEM)
chat = {"messages": [("user", common.QUESTION)]}
if common.STREAM:
    for state in agent.stream(chat, stream_mode="values"):
        pass
else:
    state = agent.invoke(chat)
common.finish(state["messages"][-1].content)
